//! Parameters of kernels: declared once, read from JSON or from words on a command line.

use serde_json::{Map, Value as Json};
use tiertune_policy::nearest::nearest;

/// What a parameter holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A whole number from the first to the second bound.
    Int(u64, u64),
    /// A number of bytes from the first to the second bound; command lines may write `64MiB`.
    Bytes(u64, u64),
    /// A number from the first to the second bound.
    Real(f64, f64),
    /// One of these words; the text says what they are ("a kind of graph").
    Word(&'static str, &'static [&'static str]),
    /// True or false.
    Flag,
    /// A text of several lines; command lines have it as it is or name a file that holds it.
    Text,
    /// Any JSON; the kernel's check says what is right.
    Other,
}

/// The value that a parameter has when it is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// None: the parameter must be given.
    Required,
    /// For `Int`, `Bytes` and `Other`.
    Int(u64),
    /// For `Real`.
    Real(f64),
    /// For `Word`.
    Word(&'static str),
    /// For `Flag`.
    Flag(bool),
}

/// One parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// Name, with its unit where it has one.
    pub name: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// Unit, empty for plain counts and words.
    pub unit: &'static str,
    /// Value when not given.
    pub default: Default,
    /// Whether it makes the input larger, so that a recording may be carried to a larger value.
    pub carried: bool,
    /// Whether it counts the work of a run and nothing else: more of it is a longer run on the same memory.
    pub work: bool,
    /// One line on what it means.
    pub meaning: &'static str,
}

impl Parameter {
    /// A whole number that must be given.
    #[must_use]
    pub const fn int(name: &'static str, least: u64, most: u64, meaning: &'static str) -> Self {
        Self::new(name, Kind::Int(least, most), meaning)
    }

    /// A number of bytes that must be given.
    #[must_use]
    pub const fn bytes(name: &'static str, least: u64, most: u64, meaning: &'static str) -> Self {
        Self::new(name, Kind::Bytes(least, most), meaning).unit("bytes")
    }

    /// A number that must be given.
    #[must_use]
    pub const fn real(name: &'static str, least: f64, most: f64, meaning: &'static str) -> Self {
        Self::new(name, Kind::Real(least, most), meaning)
    }

    /// One of some words, which must be given.
    #[must_use]
    pub const fn word(
        name: &'static str,
        what: &'static str,
        words: &'static [&'static str],
        meaning: &'static str,
    ) -> Self {
        Self::new(name, Kind::Word(what, words), meaning)
    }

    /// True or false, false when not given.
    #[must_use]
    pub const fn flag(name: &'static str, meaning: &'static str) -> Self {
        Self::new(name, Kind::Flag, meaning).or(Default::Flag(false))
    }

    /// A parameter that must be given.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind, meaning: &'static str) -> Self {
        Self {
            name,
            kind,
            unit: "",
            default: Default::Required,
            carried: false,
            work: false,
            meaning,
        }
    }

    /// The same with a default.
    #[must_use]
    pub const fn or(self, default: Default) -> Self {
        Self { default, ..self }
    }

    /// The same with a unit.
    #[must_use]
    pub const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// The same as one that a recording may be carried to a larger value of.
    #[must_use]
    pub const fn carried(self) -> Self {
        Self { carried: true, ..self }
    }

    /// The same as the one that counts the work of a run.
    #[must_use]
    pub const fn work(self) -> Self {
        Self { work: true, ..self }
    }

    /// The declaration as JSON, for other parts of the project.
    #[must_use]
    pub fn document(&self) -> Json {
        let (kind, least, most, words) = match self.kind {
            Kind::Int(least, most) => ("int", Json::from(least), Json::from(most), &[][..]),
            Kind::Bytes(least, most) => ("bytes", Json::from(least), Json::from(most), &[][..]),
            Kind::Real(least, most) => ("real", Json::from(least), Json::from(most), &[][..]),
            Kind::Word(_, words) => ("word", Json::Null, Json::Null, words),
            Kind::Flag => ("flag", Json::Null, Json::Null, &[][..]),
            Kind::Text => ("text", Json::Null, Json::Null, &[][..]),
            Kind::Other => ("other", Json::Null, Json::Null, &[][..]),
        };
        serde_json::json!({
            "name": self.name, "type": kind, "unit": self.unit, "least": least, "most": most, "words": words,
            "default": self.preset().map_or(Json::Null, |value| value.document()), "carried": self.carried,
            "work": self.work, "meaning": self.meaning,
        })
    }

    fn preset(&self) -> Option<Value> {
        match self.default {
            Default::Required => None,
            Default::Int(value) if self.kind == Kind::Other => Some(Value::Other(value.into())),
            Default::Int(value) => Some(Value::Int(value)),
            Default::Real(value) => Some(Value::Real(value)),
            Default::Word(value) => Some(Value::Word(value)),
            Default::Flag(value) => Some(Value::Flag(value)),
        }
    }

    /// The value that JSON gives.
    ///
    /// # Errors
    /// When it is of another type or out of range.
    pub fn read(&self, json: &Json) -> Result<Value, ParameterError> {
        let wrong = |what: &str| ParameterError::new(self.name, format!("is {json}, it must be {what}"));
        match self.kind {
            Kind::Int(least, most) | Kind::Bytes(least, most) => {
                let value = json.as_u64().ok_or_else(|| wrong("a whole number"))?;
                within(self.name, value, least, most)?;
                Ok(Value::Int(value))
            }
            Kind::Real(least, most) => {
                let value = json.as_f64().ok_or_else(|| wrong("a number"))?;
                if !(least..=most).contains(&value) {
                    let text = format!("is {value}, it must be from {least} to {most}");
                    return Err(ParameterError::new(self.name, text));
                }
                Ok(Value::Real(value))
            }
            Kind::Word(what, words) => {
                let given = json.as_str().ok_or_else(|| wrong(what))?;
                let Some(word) = words.iter().find(|word| **word == given) else {
                    let near = suggestion(given, words.iter().copied());
                    let text = format!("is {given}, which is not {what}{near}");
                    return Err(ParameterError::new(self.name, text));
                };
                Ok(Value::Word(word))
            }
            Kind::Flag => json.as_bool().map(Value::Flag).ok_or_else(|| wrong("true or false")),
            Kind::Text => json
                .as_str()
                .map(|text| Value::Text(text.to_owned()))
                .ok_or_else(|| wrong("a text")),
            Kind::Other => Ok(Value::Other(json.clone())),
        }
    }

    /// The JSON that a word on a command line stands for.
    ///
    /// # Errors
    /// When it is no number, size or JSON, as the type asks.
    pub fn spelled(&self, text: &str) -> Result<Json, ParameterError> {
        let wrong = |what: &str| ParameterError::new(self.name, format!("is {text}, it must be {what}"));
        match self.kind {
            Kind::Int(..) => {
                let digits: String = text.chars().filter(|letter| *letter != '_').collect();
                let value: u64 = digits.parse().map_err(|_| wrong("a whole number"))?;
                Ok(value.into())
            }
            Kind::Bytes(..) => bytes_of(text)
                .map(Json::from)
                .ok_or_else(|| wrong("a size such as 64MiB")),
            Kind::Real(..) => {
                let value: f64 = text.parse().map_err(|_| wrong("a number"))?;
                Ok(value.into())
            }
            Kind::Word(..) => Ok(text.into()),
            Kind::Flag => {
                let value: bool = text.parse().map_err(|_| wrong("true or false"))?;
                Ok(value.into())
            }
            // Several lines are no file's name: the text itself, for callers that have no file on this host.
            Kind::Text if text.contains('\n') => Ok(text.into()),
            Kind::Text => std::fs::read_to_string(text)
                .map(Json::from)
                .map_err(|cause| wrong(&format!("a file that can be read ({cause})"))),
            Kind::Other => serde_json::from_str(text).map_err(|cause| wrong(&format!("JSON ({cause})"))),
        }
    }
}

/// Bytes of a size such as `64MiB`, `2GB` or `4096`.
#[must_use]
pub fn bytes_of(text: &str) -> Option<u64> {
    let split = text
        .find(|letter: char| letter.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let number: f64 = text[..split].trim().parse().ok()?;
    let factor = match &text[split..] {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024f64.powi(2),
        "GiB" => 1024f64.powi(3),
        "TiB" => 1024f64.powi(4),
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return None,
    };
    let bytes = number * factor;
    (bytes >= 0.0 && bytes <= 2f64.powi(60) && bytes.fract() == 0.0).then_some(bytes as u64)
}

/// What a parameter is set to.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of `Int` and `Bytes`.
    Int(u64),
    /// Of `Real`.
    Real(f64),
    /// Of `Word`.
    Word(&'static str),
    /// Of `Flag`.
    Flag(bool),
    /// Of `Text`.
    Text(String),
    /// Of `Other`.
    Other(Json),
}

impl Value {
    /// The value as JSON.
    #[must_use]
    pub fn document(&self) -> Json {
        match self {
            Self::Int(value) => (*value).into(),
            Self::Real(value) => (*value).into(),
            Self::Word(value) => (*value).into(),
            Self::Flag(value) => (*value).into(),
            Self::Text(value) => value.as_str().into(),
            Self::Other(value) => value.clone(),
        }
    }
}

/// All parameters of one run, in the order of their declaration.
#[derive(Debug, Clone, PartialEq)]
pub struct Values(Vec<(&'static str, Value)>);

impl Values {
    /// Reads what is given and fills in what is not; ranges are checked, what depends on several parameters is not.
    ///
    /// # Errors
    /// With the first parameter that is missing, of another type or out of range.
    pub fn read(parameters: &'static [Parameter], given: &Map<String, Json>) -> Result<Self, ParameterError> {
        let mut values = Vec::with_capacity(parameters.len());
        for parameter in parameters {
            let value = match given.get(parameter.name) {
                Some(json) => parameter.read(json)?,
                None => parameter
                    .preset()
                    .ok_or_else(|| ParameterError::missing(parameter.name))?,
            };
            values.push((parameter.name, value));
        }
        Ok(Self(values))
    }

    /// A parameter's value.
    ///
    /// # Panics
    /// When the kernel does not declare it: a mistake in the kernel.
    #[must_use]
    pub fn get(&self, name: &str) -> &Value {
        let found = self.0.iter().find(|(known, _)| *known == name);
        &found.unwrap_or_else(|| panic!("{name} is not declared")).1
    }

    /// Whether the kernel declares it.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    /// A parameter of `Int` or `Bytes`.
    ///
    /// # Panics
    /// When it is declared otherwise: a mistake in the kernel.
    #[must_use]
    pub fn int(&self, name: &str) -> u64 {
        match self.get(name) {
            Value::Int(value) => *value,
            other => panic!("{name} is {other:?}, not a whole number"),
        }
    }

    /// A parameter of `Real`.
    ///
    /// # Panics
    /// When it is declared otherwise: a mistake in the kernel.
    #[must_use]
    pub fn real(&self, name: &str) -> f64 {
        match self.get(name) {
            Value::Real(value) => *value,
            other => panic!("{name} is {other:?}, not a number"),
        }
    }

    /// A parameter of `Word`.
    ///
    /// # Panics
    /// When it is declared otherwise: a mistake in the kernel.
    #[must_use]
    pub fn word(&self, name: &str) -> &'static str {
        match self.get(name) {
            Value::Word(value) => value,
            other => panic!("{name} is {other:?}, not a word"),
        }
    }

    /// A parameter of `Flag`.
    ///
    /// # Panics
    /// When it is declared otherwise: a mistake in the kernel.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        match self.get(name) {
            Value::Flag(value) => *value,
            other => panic!("{name} is {other:?}, not true or false"),
        }
    }

    /// A parameter of `Text`.
    ///
    /// # Panics
    /// When the kernel has no such parameter.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Value::Text(value) => value,
            other => panic!("{name} is {other:?}, not a text"),
        }
    }

    /// A parameter of `Other`.
    ///
    /// # Panics
    /// When it is declared otherwise: a mistake in the kernel.
    #[must_use]
    pub fn other(&self, name: &str) -> &Json {
        match self.get(name) {
            Value::Other(value) => value,
            other => panic!("{name} is {other:?}, not JSON"),
        }
    }

    /// The same with another value of a parameter of `Other`.
    #[must_use]
    pub fn with_other(mut self, name: &str, value: Json) -> Self {
        if let Some((_, slot)) = self.0.iter_mut().find(|(known, _)| *known == name) {
            *slot = Value::Other(value);
        }
        self
    }

    /// The same with another whole number.
    #[must_use]
    pub fn with(mut self, name: &str, value: u64) -> Self {
        for (known, slot) in &mut self.0 {
            if *known == name {
                *slot = Value::Int(value);
            }
        }
        self
    }

    /// Names and values in the order of the declaration.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }
}

/// Why a parameter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterError {
    /// The parameter.
    pub name: String,
    /// What follows its name in a sentence: "is 3, it must be from 4 to 9; the nearest is 4".
    pub text: String,
    /// Whether it was not given at all.
    pub missing: bool,
}

impl ParameterError {
    /// A parameter that is wrong in the way that `text` says.
    #[must_use]
    pub fn new(name: &str, text: String) -> Self {
        Self {
            name: name.to_owned(),
            text,
            missing: false,
        }
    }

    fn missing(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: "is missing".to_owned(),
            missing: true,
        }
    }
}

/// Whether a whole number is in its range.
///
/// # Errors
/// When it is not, with the nearest that is.
pub fn within(name: &str, value: u64, least: u64, most: u64) -> Result<(), ParameterError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let near = value.clamp(least, most);
    let text = format!("is {value}, it must be from {least} to {most}; the nearest is {near}");
    Err(ParameterError::new(name, text))
}

/// The end of a sentence that names the nearest choice, if there is one.
#[must_use]
pub fn suggestion<'a>(given: &str, choices: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, choices).map_or_else(String::new, |near| format!("; the nearest is {near}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_rest_of_the_project_writes_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("2GB", 2_000_000_000),
            ("0.5GiB", 1 << 29),
        ] {
            assert_eq!(bytes_of(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "3 apples", "-1GiB", "0.3B", "1e40GiB"] {
            assert_eq!(bytes_of(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        const PARAMETERS: &[Parameter] = &[
            Parameter::int("count", 1, 9, "a count"),
            Parameter::flag("loud", "a flag"),
            Parameter::real("share", 0.0, 1.0, "a share").or(Default::Real(0.5)),
        ];
        let given = serde_json::json!({"count": 3});
        let values = Values::read(PARAMETERS, given.as_object().unwrap()).unwrap();
        assert_eq!(
            (values.int("count"), values.flag("loud"), values.real("share")),
            (3, false, 0.5)
        );
        assert!(Values::read(PARAMETERS, &Map::new()).unwrap_err().missing);
        let given = serde_json::json!({"count": 10});
        let error = Values::read(PARAMETERS, given.as_object().unwrap()).unwrap_err();
        assert_eq!(error.text, "is 10, it must be from 1 to 9; the nearest is 9");
    }
}
