/** A chain or asset of the owner's can not stand beside the pinned ones. The message says what was expected. */
export class PinProblem extends TypeError {
  override readonly name = 'PinProblem'
  /** What is wrong: a field of the entry, as the vault's configuration names it. */
  readonly field: string

  constructor(field: string, message: string) {
    super(message)
    this.field = field
  }
}
