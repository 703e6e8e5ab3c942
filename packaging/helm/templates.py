"""Renders the chart without Helm: the part of Go's templates and of Helm's functions that its templates use.

A field, variable or function that does not exist is an error here, so a misspelt value cannot become an empty one.
"""

import hashlib
import json
import re

import yaml

ACTION = re.compile(r"\{\{(-\s)?\s*(.*?)\s*(\s-)?\}\}", re.DOTALL)
WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|:=|[(),|]|[$.\w][\w.]*)')


class TemplateError(Exception):
    """A template that cannot be rendered."""


def tokens(text):
    """The texts and actions of a template, with the white space that the actions trim removed."""
    parts, at, trims = [], 0, False
    for action in ACTION.finditer(text):
        before = text[at:action.start()]
        if trims:
            before = before.lstrip()
        parts.append(("text", before.rstrip() if action[1] else before))
        parts.append(("action", action[2]))
        at, trims = action.end(), bool(action[3])
    parts.append(("text", text[at:].lstrip() if trims else text[at:]))
    return parts


def parsed(parts, defined):
    """The tree of a list of tokens. Templates that it defines are added to `defined`."""
    def block(at):
        nodes = []
        while at < len(parts):
            kind, text = parts[at]
            if kind == "text":
                nodes.append(("text", text))
            elif text.startswith("/*"):
                pass
            elif text in ("end", "else"):
                return nodes, at
            elif text.split()[0] in ("if", "with", "range", "define"):
                word, rest = text.split(None, 1)
                body, end = block(at + 1)
                other = []
                if parts[end][1] == "else":
                    other, end = block(end + 1)
                if word == "define":
                    defined[json.loads(rest)] = body
                else:
                    nodes.append((word, rest, body, other))
                at = end
            else:
                nodes.append(("print", text))
            at += 1
        return nodes, at
    nodes, at = block(0)
    if at < len(parts):
        raise TemplateError(f"{parts[at][1]} without a beginning")
    return nodes


def words(text):
    """The words of an expression."""
    found, at = [], 0
    while at < len(text):
        word = WORD.match(text, at)
        if not word:
            raise TemplateError(f"cannot read {text[at:]!r} in {text!r}")
        found.append(word[1])
        at = word.end()
    return found


def yaml_of(value):
    """A value as YAML, without the last line feed."""
    return yaml.safe_dump(value, default_flow_style=False, width=1000).rstrip("\n")


def indented(count, text):
    """The text with each line indented."""
    return "\n".join(" " * count + line for line in text.split("\n"))


def shown(value):
    """A value as Go prints it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int)):
        return str(value)
    raise TemplateError(f"{value!r} is printed")


FUNCTIONS = {
    "quote": lambda value: json.dumps(shown(value), ensure_ascii=False),
    "toYaml": yaml_of,
    "nindent": lambda count, text: "\n" + indented(count, text),
    "indent": indented,
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "trunc": lambda count, text: text[:count],
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "default": lambda other, value: value or other,
    "int": int,
    "div": lambda a, b: a // b,
    "mul": lambda a, b: a * b,
    "not": lambda value: not value,
    "concat": lambda *lists: [item for one in lists for item in one],
    "dict": lambda *pairs: dict(zip(pairs[::2], pairs[1::2])),
    "printf": lambda form, *values: form % values,
}


class Chart:
    """The templates of a chart, and the values of one release."""

    def __init__(self, sources, root):
        self.root, self.defined, self.files = root, {}, {}
        for name, text in sources.items():
            self.files[name] = parsed(tokens(text), self.defined)

    def rendered(self, name):
        """The text of one file."""
        return self.block(self.files[name], self.root, {"$": self.root})

    def block(self, nodes, dot, variables):
        """The text of a list of nodes."""
        text, variables = "", dict(variables)
        for node in nodes:
            if node[0] == "text":
                text += node[1]
            elif node[0] == "print":
                text += self.action(node[1], dot, variables)
            else:
                text += self.control(node, dot, variables)
        return text

    def action(self, text, dot, variables):
        """The text of an action; none if it sets a variable."""
        found = words(text)
        if len(found) > 2 and found[1] == ":=":
            variables[found[0]] = self.value(found[2:], dot, variables)
            return ""
        return shown(self.value(found, dot, variables))

    def control(self, node, dot, variables):
        """The text of an `if`, a `with` or a `range`."""
        word, head, body, other = node
        found, names = words(head), []
        if ":=" in found:
            at = found.index(":=")
            names, found = [name for name in found[:at] if name != ","], found[at + 1:]
        value = self.value(found, dot, variables)
        if not value:
            return self.block(other, dot, variables)
        if word != "range":
            return self.block(body, value if word == "with" else dot, variables)
        pairs = sorted(value.items()) if isinstance(value, dict) else list(enumerate(value))
        return "".join(self.block(body, item, {**variables, **dict(zip(names, (key, item)))}) for key, item in pairs)

    def value(self, found, dot, variables):
        """The value of a pipeline."""
        last, command, depth = (), [], 0
        for word in [*found, "|"]:
            depth += (word == "(") - (word == ")")
            if word != "|" or depth:
                command.append(word)
                continue
            last = (self.call(command, dot, variables, list(last)),)
            command = []
        return last[0]

    def call(self, command, dot, variables, piped):
        """The value of a command, whose last argument is the value before it in the pipeline."""
        arguments, at = [], 0
        is_function = command[0] in FUNCTIONS or command[0] == "include"
        if is_function:
            at = 1
        while at < len(command):
            if command[at] == "(":
                end, depth = at + 1, 1
                while depth:
                    depth += (command[end] == "(") - (command[end] == ")")
                    end += 1
                arguments.append(self.value(command[at + 1:end - 1], dot, variables))
                at = end
            else:
                arguments.append(self.operand(command[at], dot, variables))
                at += 1
        arguments += piped
        if command[0] == "include":
            return self.block(self.defined[arguments[0]], arguments[1], {"$": self.root})
        if is_function:
            return FUNCTIONS[command[0]](*arguments)
        if len(arguments) != 1:
            raise TemplateError(f"{command} is no function")
        return arguments[0]

    def operand(self, word, dot, variables):
        """The value of a literal, a variable or a field."""
        if word[0] == '"':
            return json.loads(word)
        if word.isdigit():
            return int(word)
        if word in ("true", "false"):
            return word == "true"
        first, *fields = word.split(".")
        if first and first not in variables:
            raise TemplateError(f"there is no {word}")
        value = variables[first] if first else dot
        for field in filter(None, fields):
            if field not in value:
                raise TemplateError(f"there is no field {field} of {word}")
            value = value[field]
        return value
