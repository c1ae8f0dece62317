import type { Finding } from '../check/explain.ts'
import { childPointer, type Pointer } from './pointer.ts'

/** The variables for `${NAME}`, which are `process.env` or a test's own. */
export type Environment = Readonly<Record<string, string | undefined>>

interface Interpolated {
  readonly value: string
  /** True if the text consists of one `${NAME}`. Only then may its value become a number or a boolean. */
  readonly isWhole: boolean
  /** True if at least one variable was read. */
  readonly usesEnvironment: boolean
  /** The problems, each with the wrong piece of the text. */
  readonly problems: readonly { readonly at: string; readonly message: string }[]
}

const token = /\$\$\{|\$\{([^}]*)(\}?)/g
const body = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([\s\S]*))?$/

/**
 * Replaces `${NAME}` by the variable, `${NAME:-default}` by the default if the variable is unset or empty, and `$${` by `${`. Text
 * from a variable is not expanded again. An unset or empty variable without a default is a problem, because the gateway must not
 * start with an empty secret.
 */
export function interpolate(text: string, env: Environment): Interpolated {
  const problems: { at: string; message: string }[] = []
  let usesEnvironment = false
  const value = text.replace(token, (match, inner: string | undefined, end: string | undefined) => {
    if (inner === undefined) return `\${`
    const parts = end === '}' ? body.exec(inner) : null
    if (parts === null) {
      problems.push({ at: match, message: `Expected the name of an environment variable. ${forms}` })
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

/** Escapes a text so that {@link interpolate} returns it unchanged. */
export const escapeInterpolation = (text: string): string => text.replaceAll(`\${`, `$$$\${`)

/** A value from the environment, with its text in the file, and whether that text consists of one `${NAME}`. */
interface FromEnvironment {
  readonly raw: string
  readonly isWhole: boolean
}

export interface Expanded {
  readonly tree: unknown
  readonly environment: ReadonlyMap<Pointer, FromEnvironment>
  readonly findings: readonly ExpansionFinding[]
}

/** A finding about a variable. `at` is the wrong piece of the text, where the caret goes. */
export type ExpansionFinding = Finding & { readonly at: string }

/** Replaces the variables in every text of a configuration, except in keys. The given tree is not changed. */
export function expand(tree: unknown, env: Environment): Expanded {
  const environment = new Map<Pointer, FromEnvironment>()
  const findings: ExpansionFinding[] = []
  const visit = (value: unknown, pointer: Pointer): unknown => {
    if (Array.isArray(value)) return value.map((item, i) => visit(item, childPointer(pointer, i)))
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, visit(item, childPointer(pointer, key))]),
      )
    }
    if (typeof value !== 'string' || !value.includes(`\${`)) return value
    const result = interpolate(value, env)
    for (const { at, message } of result.problems) {
      findings.push({ severity: 'error', pointer, part: 'value', message, at })
    }
    if (result.usesEnvironment) environment.set(pointer, { raw: value, isWhole: result.isWhole })
    return result.value
  }
  return { tree: visit(tree, ''), environment, findings }
}
