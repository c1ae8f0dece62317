import { canonicalAddress } from '../../../core/domain/address.ts'
import { permit2Proxies } from '../../../core/evm/permit2.ts'
import { type AssetRef, type AssetTable, unknownAsset, type VaultChain } from '../../effects/assets.ts'
import type { Effect } from '../../effects/effect.ts'
import { everything, permit2Address, unlimitedFrom } from './decodeTransaction.ts'
import { encodeType, integerOf, type TypedData } from './eip712.ts'

export interface TypedContext {
  readonly chain: VaultChain
  readonly assets: AssetTable
  /** The signing account. */
  readonly from: string
}

type Values = Readonly<Record<string, unknown>>

const permissions = 'TokenPermissions(address token,uint256 amount)'
const details = 'PermitDetails(address token,uint160 amount,uint48 expiration,uint48 nonce)'
const authorization =
  'WithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)'

/**
 * The effects of typed data of a known type. Undefined for any other type. The whole encoded type is compared, so that a struct
 * with a familiar name and other fields does not match.
 *
 * @see https://eips.ethereum.org/EIPS/eip-2612 @see https://eips.ethereum.org/EIPS/eip-3009
 * @see https://github.com/makerdao/dss/blob/master/src/dai.sol for the permit with `allowed`
 * @see https://github.com/Uniswap/permit2/blob/main/src/libraries/PermitHash.sol
 */
export function readTyped(data: TypedData, context: TypedContext): Effect[] | undefined {
  // The address is converted to lower case first, as in the message. A wrong checksum does not change what is signed, so the
  // effect must still be shown.
  const contract = canonicalAddress('eip155', String(data.domain['verifyingContract']).toLowerCase())
  if (contract === undefined) return undefined
  const type = encodeType(data.primaryType, data.types)
  if (contract === permit2Address) return readPermit2(type, data, context)
  const token = context.assets.byAddress(context.chain, contract)
  // A pinned token accepts signatures only under its own domain. With another domain, the signature is for another contract.
  if (token === undefined || !hasDomainOf(token.eip712, data.domain)) return undefined
  const { message } = data
  if (type === 'Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)') {
    const { owner, spender, value, deadline } = message
    // The deadline limits only the submission. The allowance itself does not expire.
    const submitBefore = integerOf(deadline)!
    return [allow({ asset: token, owner, spender, value, via: 'permit', submitBefore }, context)]
  }
  if (type === 'Permit(address holder,address spender,uint256 nonce,uint256 expiry,bool allowed)') {
    const { holder, spender, expiry, allowed } = message
    const value = allowed === true ? everything : 0n
    // In this permit, 0 means that it can be submitted at any time.
    const submitBefore = integerOf(expiry)! || everything
    return [allow({ asset: token, owner: holder, spender, value, via: 'permit', submitBefore }, context)]
  }
  if (type !== `Transfer${authorization}` && type !== `Receive${authorization}`) return undefined
  return [
    {
      kind: 'transfer',
      asset: token,
      amount: integerOf(message['value'])!,
      from: address(message['from']),
      to: address(message['to']),
      via: type.slice(0, type.indexOf('(')),
      validAfter: integerOf(message['validAfter'])!,
      validBefore: integerOf(message['validBefore'])!,
    },
  ]
}

/**
 * Every permit of Permit2 lets the spender take up to the named amounts. An allowance permit has one time for the allowance (0
 * means only the block that includes it) and another one for the submission. A transfer permit is used when it is submitted, so
 * it has only one time. An x402 payment is a transfer. If a message has any other witness, which only the spender's contract defines,
 * the message is opaque, but its amounts are known and shown.
 */
function readPermit2(
  type: string,
  { domain, message }: TypedData,
  context: TypedContext,
): Effect[] | undefined {
  if (domain['name'] !== 'Permit2' || Object.hasOwn(domain, 'version')) return undefined
  const { spender } = message
  const grant = (granted: unknown, via: string, submitBefore: bigint, expiresAt: bigint): Effect => {
    const { token, amount } = granted as Values
    const asset = assetAt(token, context)
    return allow({ asset, spender, value: amount, via, submitBefore, expiresAt }, context)
  }
  const standing = (granted: unknown, via: string): Effect => {
    const { expiration } = granted as Values
    return grant(granted, via, integerOf(message['sigDeadline'])!, integerOf(expiration)!)
  }
  const once = (permitted: unknown, via: string): Effect => {
    const deadline = integerOf(message['deadline'])!
    return grant(permitted, via, deadline, deadline)
  }
  switch (type) {
    case `PermitSingle(PermitDetails details,address spender,uint256 sigDeadline)${details}`:
      return [standing(message['details'], 'permit2 PermitSingle')]
    case `PermitBatch(PermitDetails[] details,address spender,uint256 sigDeadline)${details}`:
      return (message['details'] as Values[]).map((granted) => standing(granted, 'permit2 PermitBatch'))
    case `PermitTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline)${permissions}`:
      return [once(message['permitted'], 'permit2 PermitTransferFrom')]
    case `PermitBatchTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline)${permissions}`:
      return (message['permitted'] as Values[]).map((permitted) =>
        once(permitted, 'permit2 PermitBatchTransferFrom'),
      )
    default:
      return readX402Permit(type, { domain, message }, context) ?? readWitnessed(type, message, once)
  }
}

const x402Permit = (witness: string): string =>
  `PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,Witness witness)${permissions}Witness(${witness})`
const x402Permits = {
  exact: x402Permit('address to,uint256 validAfter'),
  upto: x402Permit('address to,address facilitator,uint256 validAfter'),
} as const

/**
 * The transfer of an x402 payment by Permit2. Its spender is the proxy of its scheme, which pays only the witness's `to`. The proxy of
 * `upto` moves as much as the witness's `facilitator` says, up to the permitted amount. Undefined for any other witness or spender.
 */
function readX402Permit(
  type: string,
  { domain, message }: Pick<TypedData, 'domain' | 'message'>,
  context: TypedContext,
): Effect[] | undefined {
  const scheme = (['exact', 'upto'] as const).find((one) => type === x402Permits[one])
  if (scheme === undefined || String(message['spender']).toLowerCase() !== permit2Proxies[scheme])
    return undefined
  if (Object.keys(domain).sort().join() !== 'chainId,name,verifyingContract') return undefined
  const [permitted, witness] = [message['permitted'] as Values, message['witness'] as Values]
  const transfer = {
    kind: 'transfer',
    asset: assetAt(permitted['token'], context),
    amount: integerOf(permitted['amount'])!,
    from: context.from,
    to: address(witness['to']),
    via: `permit2 x402 ${scheme}`,
    validAfter: integerOf(witness['validAfter'])!,
    validBefore: integerOf(message['deadline'])!,
  } as const
  if (scheme === 'exact') return [transfer]
  return [{ ...transfer, isMost: true, submitter: address(witness['facilitator']) }]
}

/** A Permit2 message that includes a witness of its spender. */
function readWitnessed(
  type: string,
  { permitted }: Values,
  once: (permitted: unknown, via: string) => Effect,
): Effect[] | undefined {
  const name = ['PermitWitnessTransferFrom', 'PermitBatchWitnessTransferFrom'].find((one) => {
    const list = one.includes('Batch') ? '[]' : ''
    return type.startsWith(
      `${one}(TokenPermissions${list} permitted,address spender,uint256 nonce,uint256 deadline,`,
    )
  })
  if (name === undefined || !type.includes(`)${permissions}`)) return undefined
  return [
    {
      kind: 'opaque',
      target: permit2Address,
      reason: 'also signs witness data, whose meaning only its spender defines',
    },
    ...[permitted].flat().map((granted) => once(granted, `permit2 ${name}`)),
  ]
}

interface Allowed {
  readonly asset: AssetRef
  /** Absent in Permit2's messages, where the signer is the owner. */
  readonly owner?: unknown
  readonly spender: unknown
  readonly value: unknown
  readonly via: string
  readonly submitBefore: bigint
  readonly expiresAt?: bigint
}

function allow({ owner, spender, value, ...rest }: Allowed, context: TypedContext): Effect {
  const amount = integerOf(value)!
  return {
    kind: 'allowance',
    amount,
    isUnlimited: amount >= unlimitedFrom,
    owner: owner === undefined ? context.from : address(owner),
    spender: address(spender),
    ...rest,
  }
}

function hasDomainOf(pinned: { name: string; version: string } | undefined, domain: Values): boolean {
  const keys = ['name', 'version', 'chainId', 'verifyingContract']
  return (
    pinned !== undefined &&
    Object.keys(domain).length === keys.length &&
    keys.every((key) => Object.hasOwn(domain, key)) &&
    domain['name'] === pinned.name &&
    domain['version'] === pinned.version
  )
}

/**
 * An address in its checksummed form, which owners compare. EIP-712 accepts any case, so a wrong checksum cannot change what is
 * signed.
 */
const address = (value: unknown): string => canonicalAddress('eip155', String(value).toLowerCase())!

const assetAt = (value: unknown, context: TypedContext): AssetRef => {
  const token = address(value)
  return (
    context.assets.byAddress(context.chain, token) ??
    unknownAsset(context.assets.chains.of(context.chain), token)
  )
}
