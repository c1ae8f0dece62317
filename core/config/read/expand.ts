import type { Finding } from '../check/explain.ts'
import { type Environment, interpolate } from './interpolate.ts'
import { childPointer, type Pointer } from './pointer.ts'

/** A value that was read from the environment: what the file says, and whether that is one `${NAME}` and nothing else. */
export interface FromEnvironment {
  readonly raw: string
  readonly isWhole: boolean
}

export interface Expanded {
  readonly tree: unknown
  readonly environment: ReadonlyMap<Pointer, FromEnvironment>
  readonly findings: readonly ExpansionFinding[]
}

/** `at` is the piece of the text that is wrong, for the caret. */
export type ExpansionFinding = Finding & { readonly at: string }

/** Replaces the variables in every text of a configuration; keys stay as they are. The given tree is not changed. */
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
