import type { DocumentFacts } from '../check/checkDocument.ts'
import type { Finding } from '../check/explain.ts'
import type { Pointer } from '../read/pointer.ts'
import type { Config } from '../schema.ts'

/** What a rule can read. `config` includes defaults, but only values of the file can be a mistake. */
export interface RuleContext extends DocumentFacts {
  readonly config: Config
}

/** A rule about a combination of options. Its message names all of them. */
export interface Rule {
  /** The top-level options that the rule reads. The rule runs only if the schema has found no error in them. */
  readonly reads: readonly (keyof Config)[]
  check(context: RuleContext): Iterable<Finding>
}

/** An error, with which the gateway does not start. */
export const mistake = (pointer: Pointer, message: string, hint?: string): Finding =>
  finding('error', pointer, message, hint)

/** A warning about a value that is allowed, but probably not what the operator meant. */
export const warning = (pointer: Pointer, message: string, hint?: string): Finding =>
  finding('warning', pointer, message, hint)

const finding = (
  severity: Finding['severity'],
  pointer: Pointer,
  message: string,
  hint?: string,
): Finding => ({
  severity,
  pointer,
  part: 'key',
  message,
  ...(hint === undefined ? {} : { hint }),
})
