/** A node answered, and its answer is an error: a revert, a refused transaction, a method it lacks. */
export class RpcRefused extends Error {
  /** The JSON-RPC code, such as -32601. */
  readonly code: number
  /** What the node adds, unchecked: revert data in hex on EVM, the result of a simulation on Solana. */
  readonly data: unknown

  constructor(code: number, message: string, data?: unknown) {
    super(message)
    this.name = 'RpcRefused'
    this.code = code
    this.data = data
  }
}

/** No node gave a usable answer: not there, too slow, busy, behind, garbage, or serving another chain. */
export class RpcUnreachable extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'RpcUnreachable'
  }
}

/** Whether something failed because of what a node said, or did not say. */
export const isRpcError = (error: unknown): error is RpcRefused | RpcUnreachable =>
  error instanceof RpcRefused || error instanceof RpcUnreachable
