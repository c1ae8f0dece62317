/** One line of `tollgate doctor`. */
export interface Finding {
  readonly ok: boolean
  /** True if the finding needs attention but is not a failure. */
  readonly isWarning?: true
  readonly subject: string
  readonly message: string
  /** The payment that is missing from the ledger, if the finding is about one. */
  readonly payment?: {
    readonly network: string
    readonly transaction: string
    readonly asset: string
    readonly payer: string
    readonly payTo: string
    /** In the token's smallest unit, decimal digits. */
    readonly amountAtomic: string
  }
}

export const good = (subject: string, message: string): Finding => ({ ok: true, subject, message })

export const warning = (subject: string, message: string): Finding => ({
  ok: true,
  isWarning: true,
  subject,
  message,
})

export const bad = (subject: string, message: string): Finding => ({ ok: false, subject, message })

/** One failed finding per problem. Without problems, one finding that passed. */
export const report = (subject: string, problems: readonly string[], fine: string): Finding[] =>
  problems.length === 0 ? [good(subject, fine)] : problems.map((problem) => bad(subject, problem))
