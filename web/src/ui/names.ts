// Kernels have names of hundreds of characters whose telling part stands in the middle.

const SHORT = new Map<string, string>();

/** "void at::native::f<4, g<float> >(int)" is "f"; names that are no C++ functions stay. */
export function shortName(name: string): string {
  let short = SHORT.get(name);
  if (short === undefined) {
    short = shorten(name);
    SHORT.set(name, short);
  }
  return short;
}

function shorten(name: string): string {
  if (!/[<(]/.test(name) || !/::|^void |^[a-zA-Z_]\w*[<(]/.test(name) || /^\S+\.py\(/.test(name)) {
    return name;
  }
  const outside = outsideBrackets(name.replace(/\(anonymous namespace\)/g, 'anonymous'));
  const call = outside.trim().split(/\s+/).pop() ?? '';
  const last = call.split('::').pop() ?? '';
  return last === '' ? name : last;
}

/** The text without template arguments and parameters. */
function outsideBrackets(text: string): string {
  let depth = 0;
  let out = '';
  for (const letter of text) {
    if (letter === '<' || letter === '(') {
      depth++;
    } else if (letter === '>' || letter === ')') {
      depth = Math.max(0, depth - 1);
    } else if (depth === 0) {
      out += letter;
    }
  }
  return out;
}
