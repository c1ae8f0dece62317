import { hash } from 'node:crypto'
import type { NetworkId } from '../domain/network.ts'
import type { PaymentKey } from '../domain/payment.ts'

/** The key of a Solana payment: SHA-256 of network and message, so that signatures make no second payment of it. */
export const paymentKey = (network: NetworkId, message: Uint8Array): PaymentKey =>
  hash('sha256', Buffer.concat([Buffer.from(`${network}|`), message]), 'hex')
