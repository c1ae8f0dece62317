const prefix = 'invalid_batch_settlement_evm_'

/** The x402 reasons of scheme `batch-settlement`. Clients compare some of them to the letter, so the text is the packages' own. */
export const channelReasons = {
  payload: `${prefix}payload_type`,
  channelId: `${prefix}channel_id_mismatch`,
  receiver: `${prefix}receiver_mismatch`,
  receiverAuthorizer: `${prefix}receiver_authorizer_mismatch`,
  token: `${prefix}token_mismatch`,
  withdrawDelay: `${prefix}withdraw_delay_mismatch`,
  signature: `${prefix}voucher_signature`,
  /** Our own, because the packages accept such a voucher. */
  published: `${prefix}voucher_published`,
  notFound: `${prefix}channel_not_found`,
  /** The client corrects itself after this one, and repeats the call once. */
  amountMismatch: `${prefix}cumulative_amount_mismatch`,
  /** Likewise. */
  belowClaimed: `${prefix}cumulative_below_claimed`,
  exceedsBalance: `${prefix}cumulative_exceeds_balance`,
  busy: `${prefix}channel_busy`,
  depositTooSmall: `${prefix}deposit_below_min_deposit`,
  depositSimulation: `${prefix}deposit_simulation_failed`,
  depositFailed: `${prefix}deposit_transaction_failed`,
  erc3009Required: `${prefix}erc3009_authorization_required`,
  permit2Required: `${prefix}permit2_authorization_required`,
  permit2Spender: `${prefix}permit2_invalid_spender`,
  permit2Amount: `${prefix}permit2_amount_mismatch`,
  permit2Deadline: `${prefix}permit2_deadline_expired`,
  permit2Signature: `${prefix}permit2_invalid_signature`,
  validBefore: `${prefix}payload_authorization_valid_before`,
  refundNoBalance: `${prefix}refund_no_balance`,
  refundAmount: `${prefix}refund_amount_invalid`,
  refundSimulation: `${prefix}refund_simulation_failed`,
  refundFailed: `${prefix}refund_transaction_failed`,
  rpc: `${prefix}rpc_read_failed`,
} as const
