/**
 * Reasons for refusing a Solana payment, as `errorReason` in responses. The names are those of the public x402 packages
 * (`@x402/svm` 2.27, or x402 version 1 if that has none), so that clients of other facilitators understand them.
 */
export const reasons = {
  unsupportedScheme: 'invalid_exact_svm_unsupported_scheme',
  networkMismatch: 'invalid_exact_svm_network_mismatch',
  feePayerNotManaged: 'invalid_exact_svm_fee_payer_not_managed_by_facilitator',
  feePayerMismatch: 'invalid_exact_svm_fee_payer_mismatch',
  payloadTransaction: 'invalid_exact_svm_payload_transaction',
  undecodable: 'invalid_exact_svm_payload_transaction_could_not_be_decoded',
  signatureInvalid: 'invalid_exact_svm_payload_signature_invalid',
  excessiveSigners: 'invalid_exact_svm_payload_excessive_signers',
  lookupTables: 'invalid_exact_svm_smart_wallet_alt_resolution_not_available',
  instructionsLength: 'invalid_exact_svm_payload_transaction_instructions_length',
  computeLimit: 'invalid_exact_svm_payload_transaction_instructions_compute_limit_instruction',
  computeLimitTooHigh:
    'invalid_exact_svm_payload_transaction_instructions_compute_limit_instruction_too_high',
  computePrice: 'invalid_exact_svm_payload_transaction_instructions_compute_price_instruction',
  computePriceTooHigh:
    'invalid_exact_svm_payload_transaction_instructions_compute_price_instruction_too_high',
  noTransfer: 'invalid_exact_svm_payload_no_transfer_instruction',
  feePayerTransferring: 'invalid_exact_svm_payload_transaction_fee_payer_transferring_funds',
  feePayerInAccounts: 'invalid_exact_svm_payload_transaction_fee_payer_included_in_instruction_accounts',
  mintMismatch: 'invalid_exact_svm_payload_mint_mismatch',
  recipientMismatch: 'invalid_exact_svm_payload_recipient_mismatch',
  amountMismatch: 'invalid_exact_svm_payload_amount_mismatch',
  memoCount: 'invalid_exact_svm_payload_memo_count',
  memoMismatch: 'invalid_exact_svm_payload_memo_mismatch',
  /** By the instruction's index, from the fourth to the seventh. Any other index has `unknownOptional`. */
  unknownInstruction: [
    'invalid_exact_svm_payload_unknown_fourth_instruction',
    'invalid_exact_svm_payload_unknown_fifth_instruction',
    'invalid_exact_svm_payload_unknown_sixth_instruction',
    'invalid_exact_svm_payload_unknown_seventh_instruction',
  ],
  unknownOptional: 'invalid_exact_svm_payload_unknown_optional_instruction',
  senderAccount: 'invalid_exact_svm_payload_transaction_sender_ata_not_found',
  receiverAccount: 'invalid_exact_svm_payload_transaction_receiver_ata_not_found',
  simulationFailed: 'invalid_exact_svm_transaction_simulation_failed',
  transactionFailed: 'invalid_exact_svm_transaction_failed',
  blockhashExpired: 'settle_exact_svm_block_height_exceeded',
  insufficientFunds: 'insufficient_funds',
  duplicate: 'duplicate_settlement',
  pending: 'settlement_pending',
  /** The specification's word for a fault that the payment did not cause. */
  verifyFault: 'unexpected_verify_error',
  settleFault: 'unexpected_settle_error',
} as const
