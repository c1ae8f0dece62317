import { randomBytes } from 'node:crypto'
import { encodeFunctionData, parseAbi } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import type { Hex } from '../../../../adapters/chains/evm/rpc/nodes.ts'
import {
  type AllowancePermit,
  type PaymentPayload,
  type PaymentRequirements,
  permit2Types,
} from '../../../../core/x402/types.ts'
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

/** A permit of the token (EIP-2612) for Permit2, as the extension `eip2612GasSponsoring` carries it; `changes` are signed. */
export async function signAllowance(
  account: PrivateKeyAccount,
  { amount, asset, maxTimeoutSeconds }: PaymentRequirements,
  changes: Partial<AllowancePermit> = {},
): Promise<AllowancePermit> {
  const fields = {
    from: account.address,
    asset,
    spender: PERMIT2_ADDRESS,
    amount,
    nonce: '0',
    deadline: String(Math.floor(Date.now() / 1000) + maxTimeoutSeconds),
    version: '1',
    ...changes,
  }
  const signature = await account.signTypedData({
    domain: { name: 'USDC', version: '2', chainId: 84532, verifyingContract: asset as Hex },
    types: {
      Permit: [
        { name: 'owner', type: 'address' },
        { name: 'spender', type: 'address' },
        { name: 'value', type: 'uint256' },
        { name: 'nonce', type: 'uint256' },
        { name: 'deadline', type: 'uint256' },
      ],
    },
    primaryType: 'Permit',
    message: {
      owner: fields.from as Hex,
      spender: fields.spender as Hex,
      value: BigInt(fields.amount),
      nonce: BigInt(fields.nonce),
      deadline: BigInt(fields.deadline),
    },
  })
  return { ...fields, signature: changes.signature ?? signature }
}

/** The call of the token by which any account can submit a permit. */
export const permitCall = ({ from, asset, spender, amount, deadline, signature }: AllowancePermit) => ({
  to: asset as Hex,
  data: encodeFunctionData({
    abi: parseAbi([
      'function permit(address owner, address spender, uint256 value, uint256 deadline, bytes signature)',
    ]),
    args: [from as Hex, spender as Hex, BigInt(amount), BigInt(deadline), signature as Hex],
  }),
})
