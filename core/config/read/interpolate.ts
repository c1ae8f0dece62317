/** Where `${NAME}` is looked up: `process.env`, or a fake. */
export type Environment = Readonly<Record<string, string | undefined>>

export interface Interpolated {
  readonly value: string
  /** True when the text is one `${NAME}` and nothing else: only then may it become a number or a boolean. */
  readonly isWhole: boolean
  /** True when at least one variable was read. */
  readonly usesEnvironment: boolean
  /** What is wrong, and the piece of the text that it is about. */
  readonly problems: readonly { readonly at: string; readonly message: string }[]
}

const token = /\$\$\{|\$\{([^}]*)(\}?)/g
const body = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([\s\S]*))?$/

/**
 * Replaces `${NAME}` by the variable, `${NAME:-default}` by the default when the variable is unset or empty, and `$${`
 * by `${`. What a variable contains is not looked at again. An unset or empty variable without a default is a problem:
 * a gateway that starts with an empty secret is worse than one that does not start.
 */
export function interpolate(text: string, env: Environment): Interpolated {
  const problems: { at: string; message: string }[] = []
  let usesEnvironment = false
  const value = text.replace(token, (match, inner: string | undefined, end: string | undefined) => {
    if (inner === undefined) return `\${`
    const parts = end === '}' ? body.exec(inner) : null
    if (parts === null) {
      problems.push({ at: match, message: `This does not name an environment variable. ${forms}` })
      return match
    }
    const name = parts[1]!
    usesEnvironment = true
    const found = Object.hasOwn(env, name) ? env[name] : undefined
    if (found !== undefined && found !== '') return found
    if (parts[2] !== undefined) return parts[2]
    const state = found === undefined ? 'not set' : 'empty'
    problems.push({ at: match, message: `The environment variable ${name} is ${state}.` })
    return match
  })
  const whole = /^\$\{[^}]*\}$/.test(text)
  return { value, isWhole: whole && usesEnvironment, usesEnvironment, problems }
}

const forms = `Write \${NAME} or \${NAME:-default}, or $\${ for the characters themselves.`

/** Writes a text so that {@link interpolate} gives it back unchanged. */
export const escapeInterpolation = (text: string): string => text.replaceAll(`\${`, `$$$\${`)
