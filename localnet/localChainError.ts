/**
 * A local chain could not start or was told something it cannot do.
 *
 * Codes: `local_chain_not_installed` (an optional package is missing; the message names it),
 * `local_chain_start_failed` (the node ended or stayed silent), `local_chain_rpc_error` (the node refused a call).
 */
export class LocalChainError extends Error {
  readonly code: 'local_chain_not_installed' | 'local_chain_start_failed' | 'local_chain_rpc_error'

  constructor(code: LocalChainError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'LocalChainError'
    this.code = code
  }
}
