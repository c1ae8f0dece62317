import { randomBytes } from 'node:crypto'
import type { PrivateKeyAccount } from 'viem/accounts'
import type { Hex } from '../../../../adapters/chains/evm/rpc/nodes.ts'
import { type PaymentPayload, type PaymentRequirements, permit2Types } from '../../../../core/x402/types.ts'
import { PERMIT2_ADDRESS } from '../../../../localnet/evm/startLocalEvm.ts'
import { network, type SettlerFixture, termsOf } from './settler.ts'

export const proxies = {
  exact: '0x402085c248EeA27D92E8b30b2C58ed07f9E20001',
  upto: '0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002',
} as const

/** The terms of a payment by `upto` that this settler would offer. */
export const uptoTerms = (
  { settler }: Pick<SettlerFixture, 'settler'>,
  amount = '10000',
): PaymentRequirements => {
  const terms = termsOf({ scheme: 'upto', amount })
  return { ...terms, extra: { ...terms.extra, ...settler.offerExtra(terms.payTo, 'upto') } }
}

export const exactTerms = (amount = '10000'): PaymentRequirements =>
  termsOf({ amount, extra: { ...termsOf().extra, assetTransferMethod: 'permit2' } })

export interface PermitFields {
  from: string
  token: string
  amount: string
  spender: string
  nonce: string
  deadline: string
  to: string
  facilitator: string
  validAfter: string
}

/** A payment by Permit2 as a v2 client signs it; `changes` are signed, not made afterwards. */
export async function signPermit(
  account: PrivateKeyAccount,
  terms: PaymentRequirements,
  changes: Partial<PermitFields> = {},
  signature?: (signed: Hex) => Hex,
): Promise<PaymentPayload> {
  const scheme = terms.scheme as 'exact' | 'upto'
  const now = Math.floor(Date.now() / 1000)
  const fields: PermitFields = {
    from: account.address,
    token: terms.asset,
    amount: terms.amount,
    spender: proxies[scheme],
    nonce: BigInt(`0x${randomBytes(32).toString('hex')}`).toString(),
    deadline: String(now + terms.maxTimeoutSeconds),
    to: terms.payTo,
    facilitator: String(terms.extra['facilitatorAddress']),
    validAfter: '0',
    ...changes,
  }
  const { to, facilitator, validAfter } = fields
  const witness = scheme === 'upto' ? { to, facilitator, validAfter } : { to, validAfter }
  const permit2Authorization = {
    from: fields.from,
    permitted: { token: fields.token, amount: fields.amount },
    spender: fields.spender,
    nonce: fields.nonce,
    deadline: fields.deadline,
    witness,
  }
  const { from: _, ...message } = permit2Authorization
  const signed = await account.signTypedData({
    domain: { name: 'Permit2', chainId: 84532, verifyingContract: PERMIT2_ADDRESS },
    types: permit2Types[scheme],
    primaryType: 'PermitWitnessTransferFrom',
    message: message as never,
  })
  const payload = { signature: signature?.(signed) ?? signed, permit2Authorization }
  return { x402Version: 2, scheme, network, payload, accepted: { ...terms } }
}
