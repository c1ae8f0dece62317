/** Codes of Solana's JSON-RPC and of JSON-RPC 2.0 that are acted on. */
export const rpcCodes = {
  preflightFailure: -32002,
  methodNotFound: -32601,
  invalidParams: -32602,
} as const
