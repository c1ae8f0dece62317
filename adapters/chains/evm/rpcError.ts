/** A node answered, and its answer is an error: a revert, a refused transaction, a method it lacks. */
export class RpcRefused extends Error {
  readonly code: number
  /** Revert data, hex, where the node gives it. */
  readonly data: string | undefined

  constructor(code: number, message: string, data?: string) {
    super(message)
    this.name = 'RpcRefused'
    this.code = code
    this.data = data
  }

  /** True when the EVM itself stopped the call; false when the node could not run it. */
  get isRevert(): boolean {
    return this.code === 3 || this.data !== undefined || revertWords.test(this.message)
  }
}

/** No node gave a usable answer: not there, too slow, busy, garbage, or serving another chain. */
export class RpcUnreachable extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'RpcUnreachable'
  }
}

const revertWords =
  /revert|out ?of ?gas|intrinsic gas|invalid opcode|stack (?:under|over)flow|gas required exceeds/i
