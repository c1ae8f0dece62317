/**
 * Why a payment is refused or failed, in the words of @x402/evm 2.27.0 and of the x402 specification (section "error
 * codes"): clients match on them.
 */
export const reasons = {
  payload: 'invalid_payload',
  payloadType: 'unsupported_payload_type',
  scheme: 'invalid_exact_evm_scheme',
  network: 'invalid_exact_evm_network_mismatch',
  domain: 'invalid_exact_evm_missing_eip712_domain',
  recipient: 'invalid_exact_evm_recipient_mismatch',
  value: 'invalid_exact_evm_payload_authorization_value_mismatch',
  /** Version 1 has its own name for the same thing. */
  valueV1: 'invalid_exact_evm_authorization_value',
  validBefore: 'invalid_exact_evm_payload_authorization_valid_before',
  validAfter: 'invalid_exact_evm_payload_authorization_valid_after',
  signature: 'invalid_exact_evm_signature',
  signatureForm: 'invalid_exact_evm_failed_to_parse_signature',
  factory: 'eip6492_factory_not_allowed',
  nonceUsed: 'invalid_exact_evm_nonce_already_used',
  balance: 'invalid_exact_evm_insufficient_balance',
  notSupported: 'invalid_exact_evm_eip3009_not_supported',
  notDeployed: 'asset_not_deployed_contract',
  simulation: 'invalid_exact_evm_transaction_simulation_failed',
  transaction: 'invalid_exact_evm_transaction_failed',
  transferEvent: 'invalid_exact_evm_transfer_event_mismatch',
  pending: 'settlement_pending',
  /** The specification's words for a fault that is not the payment's. */
  verifyFault: 'unexpected_verify_error',
  settleFault: 'unexpected_settle_error',
} as const
