//! Knobs: declared once, in the policy's own file, and exported from there to everything else.
//!
//! A policy lists its knobs with [`knobs!`](crate::knobs), which makes the config struct, its
//! defaults, its validation and the table that help texts, search spaces, documents and reports
//! are generated from.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::nearest::nearest;

/// The value of a knob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A switch.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// One of a closed list of words.
    Text(String),
}

impl Value {
    fn number(&self) -> Option<f64> {
        match self {
            Value::Int(v) => Some(*v as f64),
            Value::Float(v) => Some(*v),
            Value::Bool(_) | Value::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(v) => write!(f, "{v}"),
            Value::Int(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v}"),
            Value::Text(v) => write!(f, "{v}"),
        }
    }
}

/// Which values a knob takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum KnobKind {
    /// Whole numbers from `min` to `max`, both included.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
        /// Whether ratios rather than differences matter.
        log: bool,
    },
    /// Real numbers from `min` to `max`, both included.
    Float {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
        /// Whether ratios rather than differences matter.
        log: bool,
    },
    /// `false` or `true`.
    Bool,
    /// One of these words.
    Choice {
        /// The valid words.
        choices: &'static [&'static str],
    },
}

/// What changing a knob costs on a live system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeCost {
    /// May change while the workload runs.
    Live,
    /// Takes a restart of the tiering system (and so of a workload that it preloads).
    RestartSystem,
    /// Takes another build of the system.
    Rebuild,
}

/// A value outside the range with a meaning of its own, such as 0 for "never sleep".
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Special {
    /// The value.
    pub value: i64,
    /// What it means.
    pub meaning: &'static str,
}

/// What a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// The one value.
    Is,
    /// Anything but the one value.
    IsNot,
    /// One of the values.
    IsOneOf,
    /// A number above the one value.
    IsOver,
}

/// What another knob must be for a knob to act.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condition {
    /// The other knob.
    pub knob: &'static str,
    /// What is asked of its value.
    pub test: Test,
    /// Values to compare with: one, or several for [`Test::IsOneOf`].
    pub values: Vec<Value>,
}

impl Condition {
    /// Whether it holds where the other knob is `value`.
    #[must_use]
    pub fn takes(&self, value: &Value) -> bool {
        let same = |other: &Value| match (value.number(), other.number()) {
            (Some(value), Some(other)) => value == other,
            _ => value == other,
        };
        match self.test {
            Test::Is | Test::IsOneOf => self.values.iter().any(same),
            Test::IsNot => !self.values.iter().any(same),
            Test::IsOver => {
                let over = |other: &Value| value.number() > other.number();
                value.number().is_some() && self.values.iter().all(over)
            }
        }
    }
}

/// Whether `knob` acts where all of `knobs` have the values of `config`, the others their defaults; not while the knob
/// that it depends on does not act either.
#[must_use]
pub fn acts(knob: &Knob, knobs: &[Knob], config: &Config) -> bool {
    knob.condition.as_ref().is_none_or(|condition| {
        let other = knobs.iter().find(|other| other.name == condition.knob);
        other.is_some_and(|other| {
            condition.takes(config.get(other.name).unwrap_or(&other.default)) && acts(other, knobs, config)
        })
    })
}

/// The one declaration of a knob.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Knob {
    /// Name, as in configs, spaces and reports.
    pub name: &'static str,
    /// One line.
    pub meaning: &'static str,
    /// Unit of the value, `""` when it has none.
    pub unit: &'static str,
    /// Type and range.
    #[serde(flatten)]
    pub kind: KnobKind,
    /// Value where nothing is said.
    pub default: Value,
    /// Values outside the range that have a meaning.
    pub special: Vec<Special>,
    /// What another knob must be for this one to act.
    pub condition: Option<Condition>,
    /// Whether campaigns search it; structural constants and switches are not searched unasked.
    pub tunable: bool,
    /// What changing it costs on a live system.
    pub change_cost: ChangeCost,
    /// Where name, default and range come from.
    pub source: &'static str,
}

/// Values by knob name, as they come in from files and optimisers.
pub type Config = BTreeMap<String, Value>;

/// What is wrong with a config.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum KnobError {
    /// A key that the system does not declare.
    #[error("{system} has no knob '{key}'; did you mean '{nearest}'?")]
    Unknown {
        /// The system.
        system: String,
        /// What was given.
        key: String,
        /// The closest declared knob.
        nearest: String,
    },
    /// A value of the wrong type or outside the range.
    #[error("{system} knob '{key}': {value} is not {expected}; the nearest valid value is {nearest}")]
    Invalid {
        /// The system.
        system: String,
        /// The knob.
        key: String,
        /// What was given.
        value: String,
        /// What the knob takes.
        expected: String,
        /// The closest valid value.
        nearest: String,
    },
}

impl Knob {
    /// Checks and normalises one value: a whole float becomes an int where an int is declared.
    pub fn check(&self, system: &str, value: &Value) -> Result<Value, KnobError> {
        let invalid = |expected: String, nearest: String| KnobError::Invalid {
            system: system.to_string(),
            key: self.name.to_string(),
            value: value.to_string(),
            expected,
            nearest,
        };
        match (&self.kind, value) {
            (KnobKind::Int { min, max, .. }, Value::Int(_) | Value::Float(_)) => {
                let given = match value {
                    Value::Int(v) => *v as f64,
                    Value::Float(v) => *v,
                    _ => unreachable!("matched numbers only"),
                };
                if given.fract() == 0.0 && self.special.iter().any(|s| s.value as f64 == given) {
                    return Ok(Value::Int(given as i64));
                }
                if given.fract() != 0.0 || given < *min as f64 || given > *max as f64 || given.is_nan() {
                    let nearest = if given.is_nan() {
                        *min
                    } else {
                        (given.round() as i64).clamp(*min, *max)
                    };
                    return Err(invalid(self.expected(), nearest.to_string()));
                }
                Ok(Value::Int(given as i64))
            }
            (KnobKind::Float { min, max, .. }, Value::Int(_) | Value::Float(_)) => {
                let given = match value {
                    Value::Int(v) => *v as f64,
                    Value::Float(v) => *v,
                    _ => unreachable!("matched numbers only"),
                };
                let special = self.special.iter().any(|s| s.value as f64 == given);
                if !(special || given >= *min && given <= *max) {
                    let nearest = if given.is_nan() { *min } else { given.clamp(*min, *max) };
                    return Err(invalid(self.expected(), nearest.to_string()));
                }
                Ok(Value::Float(given))
            }
            (KnobKind::Bool, Value::Bool(v)) => Ok(Value::Bool(*v)),
            (KnobKind::Choice { choices }, Value::Text(v)) if choices.contains(&v.as_str()) => Ok(value.clone()),
            (KnobKind::Choice { choices }, _) => {
                let near = nearest(&value.to_string(), choices.iter().copied()).unwrap_or_default();
                Err(invalid(self.expected(), near.to_string()))
            }
            _ => Err(invalid(self.expected(), self.default.to_string())),
        }
    }

    /// What the knob takes, in words.
    #[must_use]
    pub fn expected(&self) -> String {
        let mut text = match &self.kind {
            KnobKind::Int { min, max, .. } => format!("a whole number from {min} to {max}"),
            KnobKind::Float { min, max, .. } => format!("a number from {min} to {max}"),
            KnobKind::Bool => "true or false".to_string(),
            KnobKind::Choice { choices } => format!("one of {}", choices.join(", ")),
        };
        for special in &self.special {
            text.push_str(&format!(" (or {}: {})", special.value, special.meaning));
        }
        text
    }
}

/// Every knob of `knobs` with its value in `config` or its default, checked.
pub fn resolve(system: &str, knobs: &[Knob], config: &Config) -> Result<Config, KnobError> {
    for key in config.keys() {
        if !knobs.iter().any(|k| k.name == key) {
            return Err(KnobError::Unknown {
                system: system.to_string(),
                key: key.clone(),
                nearest: nearest(key, knobs.iter().map(|k| k.name))
                    .unwrap_or("none: it has no knobs")
                    .to_string(),
            });
        }
    }
    let mut resolved = Config::new();
    for knob in knobs {
        let value = config.get(knob.name).unwrap_or(&knob.default);
        resolved.insert(knob.name.to_string(), knob.check(system, value)?);
    }
    Ok(resolved)
}

/// Conversion from a checked [`Value`] to the type of a config field.
pub trait FromValue {
    /// The field's value. Panics on the wrong variant, which [`Knob::check`] has ruled out.
    fn from_value(value: &Value) -> Self;
}

macro_rules! from_int {
    ($($t:ty),*) => {$(
        impl FromValue for $t {
            fn from_value(value: &Value) -> Self {
                match value {
                    Value::Int(v) => <$t>::try_from(*v).expect("the declared range fits the field"),
                    other => unreachable!("checked knob holds {other:?}"),
                }
            }
        }
        impl From<$t> for Value {
            fn from(v: $t) -> Self { Value::Int(i64::try_from(v).expect("declared defaults fit")) }
        }
    )*};
}
from_int!(u8, u16, u32, u64, i64);

impl FromValue for f64 {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Float(v) => *v,
            other => unreachable!("checked knob holds {other:?}"),
        }
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Bool(v) => *v,
            other => unreachable!("checked knob holds {other:?}"),
        }
    }
}

impl From<f64> for Value {
    fn from(v: f64) -> Self {
        Value::Float(v)
    }
}

impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Value::Bool(v)
    }
}

impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Value::Text(v.to_string())
    }
}

impl From<String> for Value {
    fn from(v: String) -> Self {
        Value::Text(v)
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Text(v) => v.clone(),
            other => unreachable!("checked knob holds {other:?}"),
        }
    }
}

/// Declares a policy's knobs and the config struct that carries them.
///
/// ```
/// use tiertune_policy::knobs;
/// knobs! {
///     /// Knobs of an example.
///     pub struct ExampleConfig for "example" {
///         /// How often it looks.
///         period_ms: f64 = 10.0, float(1.0, 5000.0, log), unit "ms", special [(0, "spin")], tuned,
///             live, source "example paper 2.1";
///         /// Whether it looks at stores.
///         stores: bool = true, bool, unit "", special [], fixed, rebuild, source "example paper 3";
///         /// Stores before a page is hot.
///         hot_stores: u32 = 4, int(1, 64, log), unit "samples", special [], tuned, live,
///             when "stores" = true, source "example header";
///         /// How much of a period it may oversleep; what acts under several values says `!= value`, `in [values]` or `> number`.
///         slack_pct: f64 = 5.0, float(0.0, 50.0), unit "%", special [], fixed, live, when "period_ms" > 0.0, source "ours";
///     }
/// }
/// let config = ExampleConfig::from_config(&Default::default()).unwrap();
/// assert_eq!(config.hot_stores, 4);
/// assert_eq!(ExampleConfig::knobs().len(), 4);
/// ```
#[macro_export]
macro_rules! knobs {
    (
        $(#[doc = $struct_doc:literal])+
        pub struct $name:ident for $system:literal {
            $(
                #[doc = $meaning:literal]
                $field:ident : $ty:ty = $default:expr, $kind:ident $(( $($range:tt)* ))?, unit $unit:literal,
                special [ $( ($special:literal, $special_meaning:literal) ),* ], $tuned:ident, $cost:ident,
                $(when $other:literal $test:tt $other_value:expr,)? source $source:literal;
            )*
        }
    ) => {
        $(#[doc = $struct_doc])+
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        pub struct $name {
            $( #[doc = $meaning] pub $field: $ty, )*
        }

        impl $name {
            /// The declared knobs, in order.
            #[must_use]
            pub fn knobs() -> Vec<$crate::knob::Knob> {
                vec![ $( $crate::knob::Knob {
                    name: stringify!($field),
                    meaning: $meaning.trim_ascii(),
                    unit: $unit,
                    kind: $crate::knobs!(@kind $kind $(( $($range)* ))?),
                    default: $crate::knob::Value::from({ let default: $ty = $default; default }),
                    special: vec![ $( $crate::knob::Special { value: $special, meaning: $special_meaning } ),* ],
                    condition: $crate::knobs!(@when $($other $test $other_value)?),
                    tunable: $crate::knobs!(@tuned $tuned),
                    change_cost: $crate::knobs!(@cost $cost),
                    source: $source,
                } ),* ]
            }

            /// Checks `config`, fills in defaults and builds the struct.
            pub fn from_config(
                config: &$crate::knob::Config,
            ) -> Result<Self, $crate::knob::KnobError> {
                #[allow(unused_variables)]
                let resolved = $crate::knob::resolve($system, &Self::knobs(), config)?;
                Ok(Self {
                    $( $field: <$ty as $crate::knob::FromValue>::from_value(&resolved[stringify!($field)]), )*
                })
            }
        }
    };
    (@kind int($min:expr, $max:expr)) => { $crate::knob::KnobKind::Int { min: $min, max: $max, log: false } };
    (@kind int($min:expr, $max:expr, log)) => { $crate::knob::KnobKind::Int { min: $min, max: $max, log: true } };
    (@kind float($min:expr, $max:expr)) => { $crate::knob::KnobKind::Float { min: $min, max: $max, log: false } };
    (@kind float($min:expr, $max:expr, log)) => { $crate::knob::KnobKind::Float { min: $min, max: $max, log: true } };
    (@kind bool) => { $crate::knob::KnobKind::Bool };
    (@kind choice($($choice:literal),+)) => { $crate::knob::KnobKind::Choice { choices: &[$($choice),+] } };
    (@when) => { None };
    (@when $other:literal in $values:expr) => { $crate::knobs!(@holds $other, IsOneOf, $values) };
    (@when $other:literal = $value:expr) => { $crate::knobs!(@holds $other, Is, [$value]) };
    (@when $other:literal != $value:expr) => { $crate::knobs!(@holds $other, IsNot, [$value]) };
    (@when $other:literal > $value:expr) => { $crate::knobs!(@holds $other, IsOver, [$value]) };
    (@holds $other:literal, $test:ident, $values:expr) => {
        Some($crate::knob::Condition {
            knob: $other,
            test: $crate::knob::Test::$test,
            values: $values.map($crate::knob::Value::from).into(),
        })
    };
    (@tuned tuned) => { true };
    (@tuned fixed) => { false };
    (@cost live) => { $crate::knob::ChangeCost::Live };
    (@cost restart) => { $crate::knob::ChangeCost::RestartSystem };
    (@cost rebuild) => { $crate::knob::ChangeCost::Rebuild };
}
