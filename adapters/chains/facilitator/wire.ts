import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'

/**
 * The body of /verify and /settle (x402 v2, section "facilitator interface"). The inner payload is the same in versions
 * 1 and 2, so a payment of either is sent as version 2; every term is the link's own, not what the client repeats.
 */
export const facilitatorBody = (payment: PaymentPayload, terms: PaymentRequirements): object => ({
  x402Version: 2,
  paymentPayload: { x402Version: 2, payload: payment.payload, accepted: terms },
  paymentRequirements: terms,
})
