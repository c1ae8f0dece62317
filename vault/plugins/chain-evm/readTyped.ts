import { canonicalAddress } from '../../../core/domain/address.ts'
import { type AssetRef, type AssetTable, unknownAsset } from '../../effects/assets.ts'
import type { VaultChain } from '../../effects/chains.ts'
import type { Effect } from '../../effects/effect.ts'
import { encodeType, integerOf, type TypedData } from './eip712.ts'
import { everything, permit2Address, unlimitedFrom } from './permit2.ts'

export interface TypedContext {
  readonly chain: VaultChain
  readonly assets: AssetTable
  /** Who signs. */
  readonly from: string
}

type Values = Readonly<Record<string, unknown>>

const permissions = 'TokenPermissions(address token,uint256 amount)'
const details = 'PermitDetails(address token,uint160 amount,uint48 expiration,uint48 nonce)'
const authorization =
  'WithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)'

/**
 * The effects of typed data whose type is known to the letter; undefined for any other. The whole encoded type is
 * compared, so that a struct with a familiar name and other fields is not taken for it.
 *
 * @see https://eips.ethereum.org/EIPS/eip-2612 @see https://eips.ethereum.org/EIPS/eip-3009
 * @see https://github.com/makerdao/dss/blob/master/src/dai.sol for the permit that says `allowed`
 * @see https://github.com/Uniswap/permit2/blob/main/src/libraries/PermitHash.sol
 */
export function readTyped(data: TypedData, context: TypedContext): Effect[] | undefined {
  // In any case, as in the message: a false checksum changes nothing of what is signed, and must hide nothing of it.
  const contract = canonicalAddress('eip155', String(data.domain['verifyingContract']).toLowerCase())
  if (contract === undefined) return undefined
  const type = encodeType(data.primaryType, data.types)
  if (contract === permit2Address) return readPermit2(type, data, context)
  const token = context.assets.byAddress(context.chain, contract)
  // A token that we know signs under its own domain only; under another one the signature is for something else.
  if (token === undefined || !hasDomainOf(token.eip712, data.domain)) return undefined
  const { message } = data
  if (type === 'Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)') {
    const { owner, spender, value, deadline } = message
    // The deadline is the permit's; what it permits has no end.
    const submitBefore = integerOf(deadline)!
    return [allow({ asset: token, owner, spender, value, via: 'permit', submitBefore }, context)]
  }
  if (type === 'Permit(address holder,address spender,uint256 nonce,uint256 expiry,bool allowed)') {
    const { holder, spender, expiry, allowed } = message
    const value = allowed === true ? everything : 0n
    // Here 0 says that it can be submitted at any time.
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
 * Every permit of Permit2 lets the spender take up to the amounts named. Those of its allowance half say how long (0: in the
 * block in which they are submitted) and, apart from that, until when they can be submitted; the other half's are used by
 * being submitted, so both are one time. With a witness they are opaque beside their amounts: what it means is its contract's
 * affair, what it may cost is not.
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
      return readWitnessed(type, message, once)
  }
}

/** A Permit2 message whose spender has more to be signed with it. */
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
    { kind: 'opaque', target: permit2Address, reason: 'signs more with it, which only its spender knows' },
    ...[permitted].flat().map((granted) => once(granted, `permit2 ${name}`)),
  ]
}

interface Allowed {
  readonly asset: AssetRef
  /** Absent in Permit2's messages, which do not name it: it is whoever signs. */
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
 * EIP-712 takes an address in any case, so a wrong EIP-55 checksum can not change what is signed. It is shown in the one
 * right spelling, which is what people compare.
 */
const address = (value: unknown): string => canonicalAddress('eip155', String(value).toLowerCase())!

const assetAt = (value: unknown, context: TypedContext): AssetRef => {
  const token = address(value)
  return (
    context.assets.byAddress(context.chain, token) ??
    unknownAsset(context.assets.chains.of(context.chain), token)
  )
}
