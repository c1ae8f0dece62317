import { decodeFunctionData, encodeFunctionData, parseAbi, toFunctionSelector } from 'viem'
import { type AssetRef, type AssetTable, unknownAsset } from '../../effects/assets.ts'
import type { VaultChain } from '../../effects/chains.ts'
import { type Effect, forAll } from '../../effects/effect.ts'
import { amountWords } from '../../effects/plainWords.ts'
import { everything, permit2Address, unlimitedFrom } from './permit2.ts'

/**
 * Calls of a token: EIP-20, its common additions, EIP-2612 and EIP-3009 with both forms of a signature, Dai's permit; and
 * the one of NFTs (EIP-721, EIP-1155) that allows everything. Their other calls are those of coins, or not known.
 */
const tokenAbi = parseAbi([
  'function transfer(address to, uint256 amount)',
  'function transferFrom(address from, address to, uint256 amount)',
  'function approve(address spender, uint256 amount)',
  'function setApprovalForAll(address operator, bool approved)',
  'function increaseAllowance(address spender, uint256 amount)',
  'function decreaseAllowance(address spender, uint256 amount)',
  'function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s)',
  'function permit(address owner, address spender, uint256 value, uint256 deadline, bytes signature)',
  'function permit(address holder, address spender, uint256 nonce, uint256 expiry, bool allowed, uint8 v, bytes32 r, bytes32 s)',
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
])

/** Calls of Permit2's allowance half. @see https://github.com/Uniswap/permit2/blob/main/src/AllowanceTransfer.sol */
const permit2Abi = parseAbi([
  'struct Details { address token; uint160 amount; uint48 expiration; uint48 nonce; }',
  'struct Single { Details details; address spender; uint256 sigDeadline; }',
  'struct Batch { Details[] details; address spender; uint256 sigDeadline; }',
  'struct Transfer { address from; address to; uint160 amount; address token; }',
  'function approve(address token, address spender, uint160 amount, uint48 expiration)',
  'function permit(address owner, Single permitSingle, bytes signature)',
  'function permit(address owner, Batch permitBatch, bytes signature)',
  'function transferFrom(address from, address to, uint160 amount, address token)',
  'function transferFrom(Transfer[] transferDetails)',
])

const bySelector = (abi: typeof tokenAbi | typeof permit2Abi) =>
  new Map(abi.filter((item) => item.type === 'function').map((item) => [toFunctionSelector(item), item]))
const tokenCalls = bySelector(tokenAbi)
const permit2Calls = bySelector(permit2Abi)

type Hex = `0x${string}`
/** Most arguments, those of a batch one by one: more are shown as what they are, too many. */
const MOST_PARTS = 100
interface Details {
  readonly token: string
  readonly amount: bigint
  readonly expiration: number
}

export interface CallContext {
  readonly chain: VaultChain
  readonly assets: AssetTable
  /** Who sends the transaction. */
  readonly from: string
  /** The contract that is called, checksummed. */
  readonly to: string
}

/**
 * What a call does, from its selector and arguments. The arguments are written again and must give the same bytes, so
 * dirty address words, integers out of range, trailing bytes and unusual offsets of dynamic values are opaque: a contract
 * and this reader might see different things in them. Most contracts see the same, so what they do then stands beside it:
 * an unusual spelling must not make a question of what the rules refuse, nor keep it from being counted.
 */
export function readCall(data: Uint8Array, context: CallContext): Effect[] {
  const { to } = context
  const opaque = (reason: string): Effect[] => [{ kind: 'opaque', target: to, reason }]
  const hex: Hex = `0x${Buffer.from(data).toString('hex')}`
  const isPermit2 = to === permit2Address
  const item = (isPermit2 ? permit2Calls : tokenCalls).get(hex.slice(0, 10) as Hex)
  const known = context.assets.byAddress(context.chain, to)
  // Coins have no such call: what it does there is not known.
  if (item === undefined || (item.name === forAll && known !== undefined)) {
    return opaque(
      `calls ${hex.slice(0, 10)}${known === undefined ? '' : ` of ${known.symbol}`}, which is not known`,
    )
  }
  const read = argumentsOf(item, hex)
  const unusual =
    read?.isPlain === true ? [] : opaque(`calls ${item.name} with arguments in an unusual spelling`)
  if (read === undefined) return unusual
  const { args } = read
  const parts = args.flatMap(partsOf).length
  if (parts > MOST_PARTS) return opaque(`calls ${item.name} with ${parts} parts, more than anybody reads`)
  const effects = isPermit2
    ? permit2Effects(item.name, args, context)
    : tokenEffects(item.name, args, context)
  return [...unusual, ...effects]
}

/** A batch's parts, which stand in a list or, of permits, in `details`. */
const partsOf = (arg: unknown): readonly unknown[] => {
  const inner = (arg as { details?: unknown } | null)?.details ?? arg
  return Array.isArray(inner) ? inner : [arg]
}

/** The arguments as most contracts read them, and whether they are in their one plain spelling. */
function argumentsOf(
  item: unknown,
  data: Hex,
): { readonly args: readonly unknown[]; readonly isPlain: boolean } | undefined {
  const abi = [item] as unknown as typeof tokenAbi
  try {
    const { functionName, args } = decodeFunctionData({ abi, data })
    const again = encodeFunctionData({ abi, functionName, args } as Parameters<typeof encodeFunctionData>[0])
    return { args: args as unknown as readonly unknown[], isPlain: again === data }
  } catch {
    return undefined
  }
}

function tokenEffects(name: string, args: readonly unknown[], context: CallContext): Effect[] {
  const { from } = context
  const asset = assetAt(context.to, context)
  const [a, b, c, , e] = args
  const transfer = (payer: unknown, payee: unknown, amount: unknown): Effect[] => [
    {
      kind: 'transfer',
      asset,
      amount: amount as bigint,
      from: payer as string,
      to: payee as string,
      via: name,
    },
  ]
  const allow = (owner: unknown, spender: unknown, value: unknown, isAdded = false): Effect[] => {
    const amount = value as bigint
    const isUnlimited = amount >= unlimitedFrom
    return [
      {
        kind: 'allowance',
        asset,
        amount,
        isUnlimited,
        owner: owner as string,
        spender: spender as string,
        via: name,
        ...(isAdded && { isAdded }),
      },
    ]
  }
  switch (name) {
    case 'transfer':
      return transfer(from, a, b)
    case 'approve':
      return allow(from, a, b)
    case forAll:
      return allow(from, a, b === true ? everything : 0n)
    case 'increaseAllowance':
      return allow(from, a, b, true)
    // How much stays is not in it: no taking back that could be told as one.
    case 'decreaseAllowance':
      return [
        {
          kind: 'opaque',
          target: context.to,
          reason: `lowers what ${a as string} may take by ${amountWords(asset, b as bigint)} and leaves the rest`,
        },
      ]
    case 'permit':
      // Dai's says whether its holder allows everything or nothing.
      return typeof e === 'boolean' ? allow(a, b, e ? everything : 0n) : allow(a, b, c)
    // transferFrom and EIP-3009: payer, payee, amount.
    default:
      return transfer(a, b, c)
  }
}

function permit2Effects(name: string, args: readonly unknown[], context: CallContext): Effect[] {
  const allow = (owner: string, spender: string, { token, amount, expiration }: Details): Effect => ({
    kind: 'allowance',
    asset: assetAt(token, context),
    amount,
    isUnlimited: amount >= unlimitedFrom,
    owner,
    spender,
    via: `permit2 ${name}`,
    expiresAt: BigInt(expiration),
  })
  const move = (from: string, to: string, amount: bigint, token: string): Effect => ({
    kind: 'transfer',
    asset: assetAt(token, context),
    amount,
    from,
    to,
    via: `permit2 ${name}`,
  })
  if (name === 'approve') {
    const [token, spender, amount, expiration] = args as [string, string, bigint, number]
    return [allow(context.from, spender, { token, amount, expiration })]
  }
  if (name === 'permit') {
    const [owner, { details, spender }] = args as [string, { details: Details | Details[]; spender: string }]
    return [details].flat().map((entry) => allow(owner, spender, entry))
  }
  if (args.length === 4) return [move(...(args as [string, string, bigint, string]))]
  const [transfers] = args as [{ from: string; to: string; amount: bigint; token: string }[]]
  return transfers.map(({ from, to, amount, token }) => move(from, to, amount, token))
}

const assetAt = (address: string, { chain, assets }: CallContext): AssetRef =>
  assets.byAddress(chain, address) ?? unknownAsset(assets.chains.of(chain), address)
