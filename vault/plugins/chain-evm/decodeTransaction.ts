import { decodeFunctionData, encodeFunctionData, parseAbi, toFunctionSelector } from 'viem'
import { canonicalAddress } from '../../../core/domain/address.ts'
import { type AssetRef, type AssetTable, unknownAsset, type VaultChain } from '../../effects/assets.ts'
import type { TransactionRequest } from '../../effects/chainPlugin.ts'
import {
  type DecodeCode,
  type Decoded,
  type DecodeResult,
  type Effect,
  forAll,
} from '../../effects/effect.ts'
import { amountWords, finish } from '../../effects/plainWords.ts'
import { readJsonTransaction } from './jsonTransaction.ts'
import { type EvmTransaction, readTransaction, writeTransaction } from './transaction.ts'

/**
 * Maximum size of a transaction, in bytes. Nodes refuse larger ones, by EIP-7825's gas limit and by the 128 KiB limit of common
 * transaction pools.
 */
const MAX_BYTES = 131_072

/**
 * Decodes an unsigned EVM transaction in `0x` RLP or JSON. It may be legacy with EIP-155, EIP-2930 or EIP-1559. JSON is encoded
 * to RLP first. The decoded transaction must give the same bytes when it is encoded again.
 */
export function decodeTransaction(request: TransactionRequest): DecodeResult {
  const { chain, assets } = request
  const facts = assets.chains.of(chain)
  const from = canonicalAddress('eip155', request.account)
  if (facts.chainId === undefined || from === undefined)
    throw new TypeError("Expected an EVM chain and the vault's address.")
  const spelled = bytesOf(request.unsignedTx, from)
  if (!('bytes' in spelled)) return no(spelled.code, spelled.message)
  const { bytes, encoding } = spelled
  const read = readTransaction(bytes)
  if (!read.ok) return no(bytes[0] === 3 || bytes[0] === 4 ? 'TX_OPAQUE' : 'INVALID_TX', read.message)
  const { transaction } = read
  const { chainId, nonce = 0n, gas = 0n } = transaction
  if (chainId === undefined || BigInt(chainId) !== facts.chainId) {
    const named = chainId ?? 'none, so that it would be valid on every chain'
    return no(
      'CHAIN_MISMATCH',
      `Expected chain id ${facts.chainId} of ${chain}, the transaction has ${named}.`,
    )
  }
  const effects = effectsOf(transaction, { ...request, account: from })
  const fee = {
    amount: gas * maxPerGas(transaction),
    asset: assets.native(chain),
    payer: from,
  }
  const decoded: Decoded = finish(assets, {
    kind: 'transaction',
    chain,
    from,
    nonce,
    effects,
    fee,
    warnings: warningsOf(effects, from, request),
    frozenBytes: bytes,
    signingBytes: bytes,
    signKind: 'evm-transaction',
    encoding,
  })
  return { ok: true, decoded }
}

type Spelled =
  | { readonly bytes: Buffer; readonly encoding: 'hex' | 'json' }
  | { readonly code: DecodeCode; readonly message: string }

function bytesOf(input: unknown, from: string): Spelled {
  if (typeof input === 'string' && input.startsWith('0x')) {
    if (input.length > MAX_BYTES * 2 || !/^0x(?:[0-9a-fA-F]{2})+$/.test(input))
      return { code: 'INVALID_TX', message: 'Expected 0x and an even number of hex digits, at most 128 KiB.' }
    return { bytes: Buffer.from(input.slice(2), 'hex'), encoding: 'hex' }
  }
  const read = readJsonTransaction(input)
  if (!read.ok) return read
  if (read.from !== undefined && canonicalAddress('eip155', read.from) !== from)
    return { code: 'INVALID_TX', message: 'Expected `from` to be the address of this vault, or no `from`.' }
  const written = writeTransaction(read.transaction)
  if (!written.ok) return { code: 'INVALID_TX', message: written.message }
  return { bytes: Buffer.from(written.hex.slice(2), 'hex'), encoding: 'json' }
}

/** The maximum price of a unit of gas. */
const maxPerGas = (transaction: EvmTransaction): bigint =>
  (transaction.type === 'eip1559' ? transaction.maxFeePerGas : transaction.gasPrice) ?? 0n

function effectsOf({ to, value = 0n, data = '0x' }: EvmTransaction, request: TransactionRequest): Effect[] {
  const { chain, assets, account } = request
  if (to === undefined || to === null) {
    const reason =
      value === 0n ? 'deploys a new contract' : `deploys a new contract and sends it ${value} wei`
    return [{ kind: 'opaque', target: 'a new contract', reason }, ...sent('a new contract')]
  }
  const contract = canonicalAddress('eip155', to)!
  if (data === '0x') return sent(contract, true)
  return [...sent(contract), ...readCall(data, { chain, assets, from: account, to: contract })]

  function sent(payee: string, isAlways = false): Effect[] {
    if (value === 0n && !isAlways) return []
    return [
      { kind: 'transfer', asset: assets.native(chain), amount: value, from: account, to: payee, via: 'send' },
    ]
  }
}

const no = (code: DecodeCode, message: string): DecodeResult => ({ ok: false, code, message })

const zero = `0x${'0'.repeat(40)}`
const burn = '0x000000000000000000000000000000000000dEaD'

/** Warnings for the owner about what the effects do not show. Each is one sentence, without duplicates. */
export function warningsOf(
  effects: readonly Effect[],
  from: string,
  { chain, assets }: { readonly chain: VaultChain; readonly assets: AssetTable },
): string[] {
  const warnings = new Set<string>()
  for (const effect of effects) {
    if (effect.kind === 'opaque')
      warnings.add('A part of the request could not be decoded and may do anything.')
    if (effect.kind !== 'transfer' && effect.kind !== 'allowance') continue
    const other = effect.kind === 'transfer' ? effect.to : effect.spender
    const owner = effect.kind === 'transfer' ? effect.from : effect.owner
    if (owner !== from) warnings.add('The request moves money of another account.')
    if (effect.kind === 'transfer' && (other === zero || other === burn))
      warnings.add('The recipient is a burn address, so what it gets is lost.')
    if (assets.byAddress(chain, other) !== undefined) warnings.add('The recipient is a token, not a wallet.')
    if (other === from) warnings.add('The recipient is this wallet itself.')
    if (!effect.asset.isPinned)
      warnings.add(`The contract ${effect.asset.address} is unknown and may be a token or an NFT.`)
    if (effect.kind === 'allowance' && effect.isUnlimited) warnings.add('The allowance has no limit.')
    if (effect.kind === 'allowance' && effect.submitBefore !== undefined && effect.expiresAt === undefined)
      warnings.add(
        'The deadline only limits when the permit can be submitted. The allowance itself does not expire.',
      )
    if (effect.kind === 'allowance' && effect.isAdded === true)
      warnings.add('The amount is added to any allowance that already exists.')
  }
  return [...warnings]
}

/** Permit2, the same on every EVM chain. @see https://github.com/Uniswap/permit2 */
export const permit2Address = '0x000000000022D473030F116dDEE9F6B43aC78BA3'

/**
 * Amount from which an allowance is shown as unlimited. No token has a larger supply. It is below the largest uint160 (Permit2)
 * and uint256 (EIP-20), which tokens never decrement.
 */
export const unlimitedFrom = 2n ** 128n

/** The value of an allowance of everything. It is also the latest time that a message can name. */
export const everything = 2n ** 256n - 1n

/**
 * Calls of a token: EIP-20, its common additions, EIP-2612 and EIP-3009 with both signature forms, Dai's permit, and
 * `setApprovalForAll` of NFTs (EIP-721, EIP-1155). Other NFT calls equal token calls or are opaque.
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

/** Calls of Permit2's allowances. @see https://github.com/Uniswap/permit2/blob/main/src/AllowanceTransfer.sol */
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
/** Maximum arguments of a call, counting each entry of a batch. A call with more is opaque. */
const MAX_PARTS = 100
interface Details {
  readonly token: string
  readonly amount: bigint
  readonly expiration: number
}

interface CallContext {
  readonly chain: VaultChain
  readonly assets: AssetTable
  readonly from: string
  /** The called contract, checksummed. */
  readonly to: string
}

/**
 * The effects of a call, from its selector and arguments. If the arguments give other bytes when they are encoded again, the
 * call is also opaque, because a contract might decode it differently. This happens with dirty address words, integers out of
 * range, trailing bytes and unusual offsets of dynamic values. Most contracts decode them the usual way, so the decoded effects
 * are shown and counted too. Otherwise an agent could use an unusual encoding to avoid a limit, or a refusal by the rules.
 */
function readCall(data: Hex, context: CallContext): Effect[] {
  const { to } = context
  const opaque = (reason: string): Effect[] => [{ kind: 'opaque', target: to, reason }]
  const isPermit2 = to === permit2Address
  const item = (isPermit2 ? permit2Calls : tokenCalls).get(data.slice(0, 10) as Hex)
  const known = context.assets.byAddress(context.chain, to)
  // Known tokens have no such call, so its effect is unknown.
  if (item === undefined || (item.name === forAll && known !== undefined)) {
    return opaque(
      `calls ${data.slice(0, 10)}${known === undefined ? '' : ` of ${known.symbol}`}, an unknown call`,
    )
  }
  const read = argumentsOf(item, data)
  const unusual =
    read?.isPlain === true ? [] : opaque(`calls ${item.name} with arguments in a non-canonical encoding`)
  if (read === undefined) return unusual
  const { args } = read
  const parts = args.flatMap(partsOf).length
  if (parts > MAX_PARTS) return opaque(`calls ${item.name} with ${parts} parts, too many to show`)
  const effects = isPermit2
    ? permit2Effects(item.name, args, context)
    : tokenEffects(item.name, args, context)
  return [...unusual, ...effects]
}

/** The entries of a batch. They are a list or, in a batch permit, the field `details`. */
const partsOf = (arg: unknown): readonly unknown[] => {
  const inner = (arg as { details?: unknown } | null)?.details ?? arg
  return Array.isArray(inner) ? inner : [arg]
}

/** The arguments as most contracts decode them, and whether their encoding is canonical. */
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
    // The remaining allowance is unknown, so this call must not be shown as a revocation.
    case 'decreaseAllowance':
      return [
        {
          kind: 'opaque',
          target: context.to,
          reason: `lowers what ${a as string} may take by ${amountWords(asset, b as bigint)}; the rest of the allowance stays`,
        },
      ]
    case 'permit':
      // The boolean of Dai's permit allows everything or nothing.
      return typeof e === 'boolean' ? allow(a, b, e ? everything : 0n) : allow(a, b, c)
    // The arguments of transferFrom and EIP-3009 are payer, payee and amount.
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
