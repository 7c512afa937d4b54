//! Arithmetic expressions of named numbers, as pyFAI's goniometer files have them: the part of
//! Python's syntax that numexpr evaluates for numbers.
//!
//! `+ - * / % **`, parentheses, names and the functions of [`FUNCTIONS`]. As in Python, `**` binds
//! from the right and tighter than a sign before it: `-x**2` is `-(x**2)`. Numbers are f64, and so
//! is `1/2`.

/// Deepest nesting of an expression, so that no text overflows the stack.
const MAX_DEPTH: usize = 64;

/// Longest text of an expression in bytes. A sum is as deep a tree as it has terms.
const MAX_LENGTH: usize = 1 << 12;

/// An expression, parsed and with all names resolved.
#[derive(Clone, Debug)]
pub(crate) struct Expression(Node);

#[derive(Clone, Debug)]
enum Node {
    Number(f64),
    /// A variable, by its index.
    Variable(usize),
    Negative(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Call(fn(f64) -> f64, Box<Node>),
    ArcTangent(Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

/// A function of one number.
type Function = fn(f64) -> f64;

/// Functions of one number: numexpr's names, and the short ones of C. `arctan2`, or `atan2`, has
/// two.
const FUNCTIONS: [(&str, Function); 25] = [
    ("sin", f64::sin),
    ("cos", f64::cos),
    ("tan", f64::tan),
    ("arcsin", f64::asin),
    ("asin", f64::asin),
    ("arccos", f64::acos),
    ("acos", f64::acos),
    ("arctan", f64::atan),
    ("atan", f64::atan),
    ("sinh", f64::sinh),
    ("cosh", f64::cosh),
    ("tanh", f64::tanh),
    ("arcsinh", f64::asinh),
    ("arccosh", f64::acosh),
    ("arctanh", f64::atanh),
    ("sqrt", f64::sqrt),
    ("exp", f64::exp),
    ("expm1", f64::exp_m1),
    ("log", f64::ln),
    ("log10", f64::log10),
    ("log1p", f64::ln_1p),
    ("abs", f64::abs),
    ("absolute", f64::abs),
    ("floor", f64::floor),
    ("ceil", f64::ceil),
];

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    /// The text ends, or something stands where a number, a name, a function or `(` was expected.
    #[error("{found} in column {column}; expected {expected}")]
    Syntax { found: String, column: usize, expected: &'static str },
    /// A name is neither a parameter, a motor nor a constant.
    #[error("unknown name `{name}`; known are {known}")]
    UnknownName { name: String, known: String },
    /// A function is not known.
    #[error("unknown function `{name}`; known are {known}")]
    UnknownFunction { name: String, known: String },
    /// The text is too long, or nested too deeply.
    #[error("longer than {MAX_LENGTH} characters or nested more than {MAX_DEPTH} times")]
    TooLarge,
}

impl Expression {
    /// Parses a text. `names` are those of the variables, in the order of their values.
    ///
    /// # Errors
    /// The text is no expression, or has a name or function that is not known.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self, ExpressionError> {
        if text.len() > MAX_LENGTH {
            return Err(ExpressionError::TooLarge);
        }
        let mut parser = Parser { text, at: 0, names, depth: 0 };
        let node = parser.sum()?;
        match parser.peek() {
            None => Ok(Self(node)),
            Some(_) => Err(parser.syntax_error("an operator")),
        }
    }

    /// Returns the value for these values of the variables.
    pub fn evaluate(&self, values: &[f64]) -> f64 {
        self.0.evaluate(values)
    }

    /// Returns whether the value depends on the variable of this index.
    pub fn depends_on(&self, variable: usize) -> bool {
        self.0.depends_on(variable)
    }
}

impl Node {
    fn evaluate(&self, values: &[f64]) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Variable(index) => values[*index],
            Self::Negative(node) => -node.evaluate(values),
            Self::Call(function, node) => function(node.evaluate(values)),
            Self::ArcTangent(y, x) => y.evaluate(values).atan2(x.evaluate(values)),
            Self::Binary(operator, one, other) => {
                let (one, other) = (one.evaluate(values), other.evaluate(values));
                match operator {
                    Operator::Add => one + other,
                    Operator::Subtract => one - other,
                    Operator::Multiply => one * other,
                    Operator::Divide => one / other,
                    Operator::Remainder => one % other,
                    Operator::Power => one.powf(other),
                }
            }
        }
    }

    fn depends_on(&self, variable: usize) -> bool {
        match self {
            Self::Number(_) => false,
            Self::Variable(index) => *index == variable,
            Self::Negative(node) | Self::Call(_, node) => node.depends_on(variable),
            Self::Binary(_, one, other) | Self::ArcTangent(one, other) => {
                one.depends_on(variable) || other.depends_on(variable)
            }
        }
    }
}

/// A parser by recursive descent.
struct Parser<'a> {
    text: &'a str,
    /// The byte from which on the text is not parsed.
    at: usize,
    names: &'a [&'a str],
    depth: usize,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<Node, ExpressionError> {
        let mut node = self.product()?;
        loop {
            let operator = match self.peek() {
                Some('+') => Operator::Add,
                Some('-') => Operator::Subtract,
                _ => return Ok(node),
            };
            self.at += 1;
            node = Node::Binary(operator, Box::new(node), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Node, ExpressionError> {
        let mut node = self.signed()?;
        loop {
            let operator = match self.peek() {
                Some('*') => Operator::Multiply,
                Some('/') => Operator::Divide,
                Some('%') => Operator::Remainder,
                _ => return Ok(node),
            };
            self.at += 1;
            node = Node::Binary(operator, Box::new(node), Box::new(self.signed()?));
        }
    }

    fn signed(&mut self) -> Result<Node, ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExpressionError::TooLarge);
        }
        let node = match self.peek() {
            Some('-') => {
                self.at += 1;
                Node::Negative(Box::new(self.signed()?))
            }
            Some('+') => {
                self.at += 1;
                self.signed()?
            }
            _ => self.power()?,
        };
        self.depth -= 1;
        Ok(node)
    }

    fn power(&mut self) -> Result<Node, ExpressionError> {
        let base = self.atom()?;
        self.skip_spaces();
        if !self.rest().starts_with("**") {
            return Ok(base);
        }
        self.at += 2;
        Ok(Node::Binary(Operator::Power, Box::new(base), Box::new(self.signed()?)))
    }

    fn atom(&mut self) -> Result<Node, ExpressionError> {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let node = self.sum()?;
                self.expect(')', "`)`")?;
                Ok(node)
            }
            Some(first) if first.is_ascii_digit() || first == '.' => self.number(),
            Some(first) if first.is_alphabetic() || first == '_' => self.name_or_call(),
            _ => Err(self.syntax_error("a number, a name or `(`")),
        }
    }

    fn number(&mut self) -> Result<Node, ExpressionError> {
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| {
            from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let mut end = digits(0);
        if bytes.get(end) == Some(&b'.') {
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent > end + 1 + sign {
                end = exponent;
            }
        }
        match self.rest()[..end].parse() {
            Ok(number) => {
                self.at += end;
                Ok(Node::Number(number))
            }
            Err(_) => Err(self.syntax_error("a number")),
        }
    }

    fn name_or_call(&mut self) -> Result<Node, ExpressionError> {
        let is_part = |char: char| char.is_alphanumeric() || char == '_';
        let rest = self.rest();
        let name = &rest[..rest.find(|char| !is_part(char)).unwrap_or(rest.len())];
        let name = name.to_owned();
        self.at += name.len();
        if self.peek() != Some('(') {
            return match self.names.iter().position(|known| *known == name) {
                Some(index) => Ok(Node::Variable(index)),
                None => Err(ExpressionError::UnknownName { name, known: self.names.join(", ") }),
            };
        }
        self.at += 1;
        let first = self.sum()?;
        if matches!(name.as_str(), "arctan2" | "atan2") {
            self.expect(',', "`,` and the second number of arctan2")?;
            let second = self.sum()?;
            self.expect(')', "`)`")?;
            return Ok(Node::ArcTangent(Box::new(first), Box::new(second)));
        }
        let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
            let known = format!("{}, arctan2, atan2", known.join(", "));
            return Err(ExpressionError::UnknownFunction { name, known });
        };
        self.expect(')', "`)`")?;
        Ok(Node::Call(*function, Box::new(first)))
    }

    fn expect(&mut self, char: char, expected: &'static str) -> Result<(), ExpressionError> {
        if self.peek() != Some(char) {
            return Err(self.syntax_error(expected));
        }
        self.at += char.len_utf8();
        Ok(())
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Skips spaces and returns the next character.
    fn peek(&mut self) -> Option<char> {
        self.skip_spaces();
        self.rest().chars().next()
    }

    fn syntax_error(&mut self, expected: &'static str) -> ExpressionError {
        let found = self.peek().map_or("the end".to_owned(), |char| format!("{char:?}"));
        let column = self.text[..self.at].chars().count() + 1;
        ExpressionError::Syntax { found, column, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(text: &str) -> f64 {
        let names = ["x", "y", "pi"];
        Expression::parse(text, &names).unwrap().evaluate(&[3.0, -2.0, std::f64::consts::PI])
    }

    #[test]
    fn numbers_are_those_of_numexpr() {
        // From numexpr.evaluate, with x = 3 and y = -2.
        for (text, expected) in [
            ("1/2*x", 1.5),
            ("-x**2", -9.0),
            ("2**-1*x", 1.5),
            ("2**3**2", 512.0),
            ("x - y - 1", 4.0),
            ("x*-y", 6.0),
            ("8/2/2", 2.0),
            ("(x + y)*2e-1", 0.2),
            (" 7 % x", 1.0),
            ("sqrt(x**2 + 16)", 5.0),
            ("arctan2(x, 2)", 0.982_793_723_247_329),
            ("cos(pi)", -1.0),
            ("abs(y) + .5 + 1.", 3.5),
            ("+x - -y", 1.0),
            ("1e3 + 1E-3", 1000.001),
        ] {
            assert_eq!(evaluate(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        let parse = |text: &str| Expression::parse(text, &["x"]).unwrap_err().to_string();
        assert_eq!(parse("x + z1"), "unknown name `z1`; known are x");
        assert!(parse("eval(x)").starts_with("unknown function `eval`; known are sin, cos"));
        assert_eq!(parse("x +"), "the end in column 4; expected a number, a name or `(`");
        assert_eq!(parse("(x"), "the end in column 3; expected `)`");
        assert_eq!(parse("x y"), "'y' in column 3; expected an operator");
        assert_eq!(parse("x < 2"), "'<' in column 3; expected an operator");
        assert_eq!(parse("."), "'.' in column 1; expected a number");
        assert_eq!(parse(""), "the end in column 1; expected a number, a name or `(`");
        assert_eq!(parse("sin(x, x)"), "',' in column 6; expected `)`");
        let deep = "longer than 4096 characters or nested more than 64 times";
        assert_eq!(parse(&"(".repeat(10_000)), deep);
        assert_eq!(parse(&"-".repeat(10_000)), deep);
        assert_eq!(parse(&"x+".repeat(10_000)), deep);
    }

    #[test]
    fn the_longest_sum_does_not_overflow_the_stack() {
        let text = "x+".repeat(MAX_LENGTH / 2 - 1) + "x";
        let sum = move || {
            let expression = Expression::parse(&text, &["x"]).unwrap().clone();
            (expression.evaluate(&[1.0]), expression.depends_on(0))
        };
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(sum).unwrap();
        assert_eq!(thread.join().unwrap(), ((MAX_LENGTH / 2) as f64, true));
    }

    #[test]
    fn any_text_is_an_expression_or_an_error() {
        let pieces = [
            "x", "pi", "(", ")", "**", "*", "-", "+", "/", "%", ",", "sin(", "1e", "2.5", " ", "é",
            "atan2(",
        ];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text += pieces[(state >> 33) as usize % pieces.len()];
            }
            if let Ok(expression) = Expression::parse(&text, &["x", "pi"]) {
                expression.evaluate(&[1.5, 3.1]);
            }
        }
    }

    #[test]
    fn an_expression_knows_its_variables() {
        let expression = Expression::parse("sin(x) + arctan2(1, -z)", &["x", "y", "z"]).unwrap();
        assert_eq!([0, 1, 2].map(|index| expression.depends_on(index)), [true, false, true]);
    }
}
