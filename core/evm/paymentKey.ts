import { hash } from 'node:crypto'
import type { NetworkId } from '../domain/network.ts'
import type { PaymentKey } from '../domain/payment.ts'

/** The part of a payment's key that is the same for every payment in a token. */
export const paymentKeyPrefix = (network: NetworkId, asset: string): string =>
  `${network}|${asset.toLowerCase()}|`

/** The key of an EIP-3009 authorisation: SHA-256 of network, token, payer and nonce, the last three in lower case. */
export const paymentKey = (prefix: string, payer: string, nonce: string): PaymentKey =>
  hash('sha256', `${prefix}${payer}|${nonce}`, 'hex')
