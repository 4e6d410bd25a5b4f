#!/usr/bin/env bash
# `make install`, what it installed in use, `make uninstall`, and the package; in a temporary folder.
# Needs a release build; `make test-install` makes one.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'echo "FAILED: tests/install.sh, line $LINENO: $BASH_COMMAND" >&2' ERR
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
mpicc=${MPICC:-mpicc}

tell() { echo "install: $*"; }
same() { [ "$1" = "$2" ] || { echo "expected '$2', is '$1'" >&2; return 1; }; }
contents() { (cd "$1" && find . | sort); }

tell 'a folder of another owner, and files in it, stay; all of ours goes'
root=$work/root
mkdir -p "$root/opt/arborcast/bin" "$root/opt/arborcast/share/man"
touch "$root/opt/arborcast/bin/theirs"
before=$(contents "$root")
make -s install PREFIX=/opt/arborcast DESTDIR="$root" >/dev/null
first=$(contents "$root")
[ -x "$root/opt/arborcast/bin/arborcastd" ]
# What an older version had installed and this one does not.
touch "$root/opt/arborcast/bin/retired"
sed -i '1i /opt/arborcast/bin/retired' "$root/opt/arborcast/share/arborcast/installed"
make -s install PREFIX=/opt/arborcast DESTDIR="$root" >/dev/null
same "$(contents "$root")" "$first"
grep -qx 'ExecStart=/opt/arborcast/bin/arborcastd' "$root/opt/arborcast/lib/systemd/system/arborcastd.service"
if grep -rIl '@[A-Z]*@' "$root"; then false; fi
make -s uninstall PREFIX=/opt/arborcast DESTDIR="$root"
same "$(contents "$root")" "$before"
if make -s uninstall PREFIX=/opt/arborcast DESTDIR="$root" 2>/dev/null; then false; fi
if make -s install PREFIX="$root/a:b" 2>/dev/null; then false; fi

tell 'programs run where they are, and find their library'
prefix=$work/prefix
make -s install PREFIX="$prefix" >/dev/null
library=$prefix/lib/arborcast/libarborcast.so
same "$("$prefix/bin/arborcast" --version)" "arborcast $version"
same "$("$prefix/bin/arborcastd" --version)" "arborcastd $version"
same "$("$prefix/bin/arborcast" run -- env | grep ^LD_PRELOAD=)" "LD_PRELOAD=$library"
("$prefix/bin/arborcast" --socket "$work/none" doctor || true) | grep -qF "$library can be loaded, version $version"
chmod 000 "$library" && mv "$library" "$work"
code=0
"$prefix/bin/arborcast" run -- true 2>/dev/null || code=$?
same $code 125
mv "$work/libarborcast.so" "$library" && chmod 644 "$library"
for program in arborcast-experiment goptest network_test mpi_collective_benchmark; do
    [ -x "$prefix/bin/$program" ]
    [ -s "$prefix/share/man/man1/$program.1" ]
done

same "$(cmp "$prefix/share/doc/arborcast/examples/arborcast.rules.yml" packaging/prometheus/arborcast.rules.yml)" ''
[ -s "$prefix/share/doc/arborcast/examples/arborcast.json" ]
[ -s "$prefix/share/doc/arborcast/examples/arborcastd-launch.conf" ]
[ -z "$(SLURM_ARBORCAST= "$prefix/share/doc/arborcast/examples/task-prolog")" ]
same "$(SLURM_ARBORCAST=everywhere "$prefix/share/doc/arborcast/examples/task-prolog")" "export LD_PRELOAD=$library"

tell 'completions know the options'
for program in arborcast arborcastd arborcast-experiment; do
    bash -n "$prefix/share/bash-completion/completions/$program"
    head -1 "$prefix/share/zsh/site-functions/_$program" | grep -qx "#compdef $program"
    grep -q "complete -c $program" "$prefix/share/fish/vendor_completions.d/$program.fish"
done
words=$(
    . "$prefix/share/bash-completion/completions/arborcast"
    COMP_WORDS=(arborcast his) COMP_CWORD=1
    _arborcast arborcast his arborcast
    echo "${COMPREPLY[*]}"
)
same "$words" history

if command -v pkg-config >/dev/null && command -v "$mpicc" >/dev/null; then
    tell 'pkg-config leads a program that asks by name to header and library'
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    same "$(pkg-config --modversion arborcast)" "$version"
    same "$(pkg-config --cflags arborcast | xargs)" "-I$prefix/include"
    read -ra flags < <(pkg-config --cflags --libs arborcast)
    "$mpicc" mpi-shim/examples/timed_broadcast.c -o "$work/timed" "${flags[@]}"
    ldd "$work/timed" | grep -qF "$library"
fi

if command -v systemd-analyze >/dev/null; then
    tell 'the unit can be started'
    systemd-analyze verify --man=no "$prefix/lib/systemd/system/arborcastd.service"
fi

if command -v tclsh >/dev/null; then
    tell 'the modulefile can be read and names folders that exist'
    tclsh >"$work/paths" <<EOF
foreach name {module-whatis conflict} { proc \$name args {} }
proc prepend-path {name folder} { puts \$folder }
source $prefix/share/modulefiles/arborcast/$version
EOF
    same "$(wc -l <"$work/paths")" 4
    while read -r folder; do [ -d "$folder" ]; done <"$work/paths"
fi

if command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null; then
    tell 'the package holds the same, and names what it needs'
    packaging/deb >/dev/null
    package=$(echo target/package/arborcast_"$version"_*.deb)
    same "$(dpkg-deb -f "$package" Version)" "$version"
    dpkg-deb -f "$package" Depends | grep -q 'libc6 (>='
    if dpkg-deb -f "$package" Depends | grep -q mpi; then false; fi
    dpkg-deb -c "$package" >"$work/listed"
    for file in bin/arborcast bin/arborcastd bin/arborcast-experiment lib/arborcast/libarborcast.so \
        include/arborcast.h share/man/man1/arborcast.1.gz lib/systemd/system/arborcastd.service \
        share/doc/arborcast/copyright share/zsh/vendor-completions/_arborcast; do
        grep -q "root/root .* \./usr/$file\$" "$work/listed"
    done
    if grep -E 'installed$|\.new$|retired' "$work/listed"; then false; fi
    dpkg-deb -x "$package" "$work/package"
    same "$("$work/package/usr/bin/arborcast" run -- env | grep ^LD_PRELOAD=)" \
        "LD_PRELOAD=$work/package/usr/lib/arborcast/libarborcast.so"
    (cd "$work/package" && dpkg-deb --ctrl-tarfile "$OLDPWD/$package" | tar -xO ./md5sums | md5sum --check --quiet)
fi
tell 'all is as it should be'
