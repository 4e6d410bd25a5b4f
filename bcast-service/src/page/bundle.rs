//! The page's scripts in one file: a browser asks for it once, and not for a dozen modules one after the other.
//!
//! Each module becomes a function that is called once and gives what it exports. It has to say `import { … }
//! from "./name.js";`, `import * as name from …` and `export const`, `export function` or `export async
//! function`, each on a line that it begins.

use std::fmt::Write;

/// A module's name, without `.js`, and its text.
pub type Module = (&'static str, &'static str);

/// `modules` in an order in which each comes after those that it imports.
pub fn bundle(modules: &[Module]) -> String {
    let mut script = String::from("\"use strict\";\n");
    for (name, text) in modules {
        let _ = writeln!(script, "// {name}.js\nconst of_{name} = (() => {{");
        let mut exported = Vec::new();
        for line in text.lines() {
            if let Some(import) = imported(line) {
                script.push_str(&import);
            } else if let Some(declaration) = line.strip_prefix("export ") {
                exported.extend(declared(declaration));
                script.push_str(declaration);
            } else {
                script.push_str(line);
            }
            script.push('\n');
        }
        let _ = writeln!(script, "return {{ {} }};\n}})();", exported.join(", "));
    }
    script
}

fn imported(line: &str) -> Option<String> {
    let (names, from) = line.strip_prefix("import ")?.split_once(" from \"./")?;
    let names = names.strip_prefix("* as ").unwrap_or(names);
    Some(format!("const {names} = of_{};", from.strip_suffix(".js\";")?))
}

/// The name that a declaration declares.
fn declared(declaration: &str) -> Option<&str> {
    let kinds = ["const ", "function ", "async function "];
    let rest = kinds.iter().find_map(|kind| declaration.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_ascii_alphanumeric()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_keep_their_names_for_themselves() {
        let unit = "export const unit = 2;\nconst own = 1;\nexport async function twice(x) { return x; }\n";
        let page = "import { unit } from \"./unit.js\";\nimport * as all from \"./unit.js\";\nconst own = 3;\n";
        let script = bundle(&[("unit", unit), ("page", page)]);
        let expected = "\"use strict\";\n// unit.js\nconst of_unit = (() => {\nconst unit = 2;\nconst own = 1;\n\
             async function twice(x) { return x; }\nreturn { unit, twice };\n})();\n\
             // page.js\nconst of_page = (() => {\nconst { unit } = of_unit;\nconst all = of_unit;\nconst own = 3;\n\
             return {  };\n})();\n";
        assert_eq!(script, expected);
    }
}
