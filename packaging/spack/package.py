# Nothing is published to be downloaded: with this file in a repository of recipes, as
# packages/arborcast/package.py, call `spack dev-build arborcast@0.1.0 ^openmpi` in a checkout.

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Arborcast(MakefilePackage):
    """MPI_Bcast along trees found by experiment: a daemon for each node, an experiment that searches
    while applications are quiet, and a library that hands the trees to MPI programs, which are not
    recompiled."""

    license("MIT OR Apache-2.0")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("rust@1.90:", type="build")
    depends_on("llvm+clang", type="build")
    # Of the experiment and the measurement programs; the library serves every MPI.
    depends_on("mpi")

    # Everything that `make deps` looks for is there, and no second MPI is wanted.
    build_targets = ["--assume-old=deps", "HAS_MPICH=false", "release"]

    def setup_build_environment(self, env):
        env.set("MPICC", self.spec["mpi"].mpicc)
        env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)

    @property
    def install_targets(self):
        return [f"PREFIX={self.prefix}", "install"]
