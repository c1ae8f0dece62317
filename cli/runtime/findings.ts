/** One line of `tollgate doctor`. */
export interface Finding {
  readonly ok: boolean
  /** Worth a look, and no reason to fail. */
  readonly isWarning?: true
  readonly subject: string
  readonly message: string
  /** The payment that the books lack, where the finding is one. */
  readonly payment?: {
    readonly network: string
    readonly transaction: string
    readonly asset: string
    readonly payer: string
    readonly payTo: string
    /** In the asset's smallest unit, decimal digits. */
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

/** Each problem as one that is bad, or that all is fine. */
export const report = (subject: string, problems: readonly string[], fine: string): Finding[] =>
  problems.length === 0 ? [good(subject, fine)] : problems.map((problem) => bad(subject, problem))
