import { allowanceRequired } from '../../../core/x402/types.ts'

/**
 * Reasons why a payment is refused or failed. Clients match on these strings, so they are the same as in @x402/evm 2.27.0 and in
 * the x402 specification (section "error codes").
 */
export const reasons = {
  payload: 'invalid_payload',
  payloadType: 'unsupported_payload_type',
  scheme: 'invalid_exact_evm_scheme',
  network: 'invalid_exact_evm_network_mismatch',
  domain: 'invalid_exact_evm_missing_eip712_domain',
  recipient: 'invalid_exact_evm_recipient_mismatch',
  value: 'invalid_exact_evm_payload_authorization_value_mismatch',
  /** Version 1 has its own name for the same reason. */
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
  uptoScheme: 'invalid_upto_evm_scheme',
  uptoNetwork: 'invalid_upto_evm_network_mismatch',
  uptoExceeds: 'invalid_upto_evm_payload_settlement_exceeds_amount',
  uptoFacilitator: 'upto_facilitator_mismatch',
  permit2Spender: 'invalid_permit2_spender',
  permit2Recipient: 'invalid_permit2_recipient_mismatch',
  permit2Deadline: 'permit2_deadline_expired',
  permit2NotYetValid: 'permit2_not_yet_valid',
  permit2Amount: 'permit2_amount_mismatch',
  permit2Token: 'permit2_token_mismatch',
  permit2Signature: 'invalid_permit2_signature',
  permit2Nonce: 'permit2_invalid_nonce',
  permit2Allowance: allowanceRequired,
  permit2Balance: 'permit2_insufficient_balance',
  permit2NotDeployed: 'permit2_proxy_not_deployed',
  permit2Simulation: 'permit2_simulation_failed',
  eip2612Form: 'invalid_eip2612_extension_format',
  eip2612From: 'eip2612_from_mismatch',
  eip2612Asset: 'eip2612_asset_mismatch',
  eip2612Spender: 'eip2612_spender_not_permit2',
  eip2612Deadline: 'eip2612_deadline_expired',
  pending: 'settlement_pending',
  /** The specification's word for a fault that the payment did not cause. */
  verifyFault: 'unexpected_verify_error',
  settleFault: 'unexpected_settle_error',
} as const
