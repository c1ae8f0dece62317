import type { DocumentFacts } from '../check/checkDocument.ts'
import type { Finding } from '../check/explain.ts'
import type { Config } from '../types.ts'

/** What a rule may ask beside the values: defaults are in `config`, but only what was written can be a mistake. */
export interface RuleContext extends DocumentFacts {
  readonly config: Config
}

/** A rule between options: it names both in its message. */
export interface Rule {
  /** The top-level options it reads; it runs only when the schema found nothing wrong in any of them. */
  readonly reads: readonly (keyof Config)[]
  check(context: RuleContext): Iterable<Finding>
}
