/** No node gave a proper answer: not reachable, too slow, overloaded, behind, or of another cluster. Ask again later. */
export class RpcUnreachable extends Error {
  readonly code = 'solana_rpc_unreachable'

  constructor(message: string) {
    super(message)
    this.name = 'RpcUnreachable'
  }
}

/** A node understood the call and said no (JSON-RPC error). Another node would say the same. */
export class RpcRefused extends Error {
  readonly code = 'solana_rpc_refused'
  /** The JSON-RPC code, such as -32002. */
  readonly rpcCode: number
  /** What the node adds, such as the result of a preflight simulation. */
  readonly data: unknown

  constructor(rpcCode: number, message: string, data: unknown) {
    super(`${message} (code ${rpcCode})`)
    this.name = 'RpcRefused'
    this.rpcCode = rpcCode
    this.data = data
  }
}

/** Codes of Solana's JSON-RPC and of JSON-RPC 2.0 that are acted on. */
export const rpcCodes = {
  preflightFailure: -32002,
  signatureVerificationFailure: -32003,
  nodeUnhealthy: -32005,
  minContextSlotNotReached: -32016,
  methodNotFound: -32601,
  invalidParams: -32602,
} as const
