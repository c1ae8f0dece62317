import { base58 } from '@scure/base'
import {
  associatedTokenProgram,
  computeBudgetProgram,
  memoProgram,
  tokenProgramAddress,
} from '../../../core/solana/addresses.ts'
import type { Instruction, Message } from '../../../core/solana/message.ts'
import { tokenAccountOf } from '../../../core/solana/tokenAccount.ts'
import { readU64 } from '../../../core/solana/wire.ts'
import {
  type AssetRef,
  type AssetTable,
  accountRent,
  unknownAsset,
  type VaultChain,
} from '../../effects/assets.ts'
import type { Effect } from '../../effects/effect.ts'

const systemProgram = '1'.repeat(32)
const computeBudget = base58.encode(computeBudgetProgram)
const memo = base58.encode(memoProgram)
const associatedToken = base58.encode(associatedTokenProgram)
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Maximum amount, which SPL Token treats as unlimited. */
const max64 = 2n ** 64n - 1n

export interface InstructionContext {
  readonly chain: VaultChain
  readonly assets: AssetTable
}

/**
 * The effects of a message, instruction by instruction. Each known form has an exact number of bytes and accounts. Any other
 * instruction is opaque. A use of a lookup table is opaque too, because the table may change before the transaction is
 * executed. Programs ignore extra bytes and accounts. So a transfer or allowance with extras is shown and counted, and also
 * opaque. Otherwise an agent could use extras to avoid a limit, or a refusal by the rules. Compute-budget instructions only set
 * the fee.
 */
export function readInstructions(message: Message, context: InstructionContext): Effect[] {
  const effects: Effect[] = []
  if (message.lookupTables > 0) {
    effects.push(
      opaque('address lookup tables', 'takes accounts from lookup tables that are not in the transaction'),
    )
  }
  for (const instruction of message.instructions) {
    effects.push(...readOne(instruction, message, context))
  }
  return nameOwners(effects)
}

/** One instruction for the readers below, with its data and the addresses of its program and accounts. */
interface Named {
  readonly program: string
  readonly accounts: readonly string[]
  readonly data: Uint8Array
  /** Whether the account at this index signs the transaction. */
  signs(index: number): boolean
}

function readOne(instruction: Instruction, message: Message, context: InstructionContext): Effect[] {
  const indexes = [instruction.program, ...instruction.accounts]
  if (indexes.some((index) => index >= message.keys.length))
    return [opaque('address lookup tables', 'uses an account that only a lookup table names')]
  const [program, ...accounts] = indexes.map((index) => base58.encode(message.keys[index]!))
  const named: Named = {
    program: program!,
    accounts,
    data: instruction.data,
    signs: (index) => instruction.accounts[index]! < message.requiredSignatures,
  }
  switch (program) {
    case systemProgram:
      return readSystem(named, context)
    case tokenProgramAddress.token:
      return readToken(named, 'token', context)
    case tokenProgramAddress['token-2022']:
      return readToken(named, 'token-2022', context)
    case associatedToken:
      return readAssociated(named, context)
    case computeBudget:
      // `readFee` has decoded these, and reports unknown ones as opaque.
      return []
    case memo:
      return readMemo(named)
    default:
      return [opaque(program!, 'calls an unknown program')]
  }
}

function readSystem(
  { program, accounts, data, signs }: Named,
  { chain, assets }: InstructionContext,
): Effect[] {
  const kind = data.length < 4 ? undefined : Buffer.from(data).readUInt32LE(0)
  if (kind === 2 && data.length >= 12 && accounts.length >= 2 && signs(0)) {
    const [from, to] = accounts
    const isExact = data.length === 12 && accounts.length === 2
    return [
      ...(isExact ? [] : [opaque(program, beyondForm)]),
      {
        kind: 'transfer',
        asset: assets.native(chain),
        amount: readU64(data, 4),
        from: from!,
        to: to!,
        via: 'transfer',
      },
    ]
  }
  if (kind === 4) return [opaque(program, 'uses a durable nonce, so the transaction never expires')]
  return [opaque(program, `calls instruction ${kind ?? 'without a number'} of the System program`)]
}

function readToken(
  { program, accounts, data, signs }: Named,
  kind: 'token' | 'token-2022',
  context: InstructionContext,
): Effect[] {
  const [tag] = data
  const isChecked = tag === 12 || tag === 13
  const isPlain = tag === 3 || tag === 4
  const [count, length] = isChecked ? ([4, 10] as const) : ([3, 9] as const)
  // An owner that does not sign may be a multisig account with signers behind it. Then the money is not the vault's.
  const isOfSigner = accounts.length >= count && signs(count - 1)
  if ((isChecked || isPlain) && data.length >= length && isOfSigner) {
    // An extra account is a signer of a multisig account, or is for a transfer hook.
    const isExact = data.length === length && accounts.length === count
    const beyond = isExact ? [] : [opaque(program, beyondForm)]
    const source = accounts[0]!
    const authority = accounts[count - 1]!
    const asset = isChecked
      ? mintedBy(accounts[1]!, kind, data[9]!, context)
      : heldIn(source, authority, kind, context)
    const amount = readU64(data, 1)
    const party = accounts[isChecked ? 2 : 1]!
    const via = ['transfer', 'approve', 'transferChecked', 'approveChecked'][[3, 4, 12, 13].indexOf(tag!)]!
    if (tag === 3 || tag === 12)
      return [...beyond, { kind: 'transfer', asset, amount, from: authority, to: party, via }]
    const isUnlimited = amount === max64
    return [
      ...beyond,
      { kind: 'allowance', asset, amount, isUnlimited, owner: authority, spender: party, via },
    ]
  }
  // TransferCheckedWithFee: the fee is part of the amount. Only the mint defines the correct fee.
  const isWithFee = kind === 'token-2022' && tag === 26 && data[1] === 1 && data.length >= 19
  if (isWithFee && accounts.length >= 4 && signs(3)) {
    const [, mint, to, from] = accounts as [string, string, string, string]
    const asset = mintedBy(mint, kind, data[10]!, context)
    return [
      opaque(program, 'transfers with a token fee, which the mint takes'),
      { kind: 'transfer', asset, amount: readU64(data, 2), from, to, via: 'transferCheckedWithFee' },
    ]
  }
  const known: Record<number, string> = {
    6: 'transfers the authority over an account or a mint (SetAuthority)',
    9: 'closes a token account (CloseAccount)',
  }
  return [opaque(program, known[tag ?? -1] ?? `calls an unknown token instruction (${tag})`)]
}

/** The asset of a mint. The mint, the program and the decimals must all match a pinned asset. */
function mintedBy(
  mint: string,
  kind: 'token' | 'token-2022',
  decimals: number,
  { chain, assets }: InstructionContext,
): AssetRef {
  const pinned = assets.byAddress(chain, mint)
  const isSame = pinned !== undefined && (pinned.program ?? 'token') === kind && pinned.decimals === decimals
  return isSame ? pinned : unknownAsset(assets.chains.of(chain), mint)
}

/**
 * The asset that an account holds. Transfer and Approve do not name their mint, so the account must be an associated account of
 * a pinned mint.
 */
function heldIn(
  source: string,
  owner: string,
  kind: 'token' | 'token-2022',
  { chain, assets }: InstructionContext,
): AssetRef {
  const found = assets
    .tokensOf(chain)
    .find((asset) => (asset.program ?? 'token') === kind && tokenAccountOf(owner, asset) === source)
  return found ?? unknownAsset(assets.chains.of(chain), source)
}

function readAssociated({ program, accounts, data, signs }: Named, context: InstructionContext): Effect[] {
  const isCreate = data.length === 0 || (data.length === 1 && (data[0] === 0 || data[0] === 1))
  const [payer, account, owner, mint, system, tokenProgram] = accounts
  const asset = mint === undefined ? undefined : context.assets.byAddress(context.chain, mint)
  const isRight =
    isCreate &&
    accounts.length >= 6 &&
    signs(0) &&
    system === systemProgram &&
    asset !== undefined &&
    tokenProgram === tokenProgramAddress[asset.program ?? 'token'] &&
    tokenAccountOf(owner!, asset) === account
  if (!isRight) return [opaque(program, 'creates a token account in an unknown way')]
  const rent = accountRent[asset.program ?? 'token']
  const made: Effect = { kind: 'account', account: account!, owner: owner!, asset, payer: payer!, rent }
  return accounts.length === 6 ? [made] : [opaque(program, beyondForm), made]
}

function readMemo({ program, data, accounts, signs }: Named): Effect[] {
  // The accounts of a memo must all sign. If one does not, the memo fails.
  if (!accounts.every((_, index) => signs(index))) return [opaque(program, 'writes a memo for others')]
  try {
    return [{ kind: 'note', text: utf8.decode(data) }]
  } catch {
    return [opaque(program, 'writes a memo that is not text')]
  }
}

/** Adds the owner of a transfer's destination, if the same transaction creates that account. */
function nameOwners(effects: readonly Effect[]): Effect[] {
  const owners = new Map(
    effects.flatMap((e) => (e.kind === 'account' ? [[e.account, e.owner] as const] : [])),
  )
  return effects.map((effect) => {
    const toOwner = effect.kind === 'transfer' ? owners.get(effect.to) : undefined
    return toOwner === undefined ? effect : { ...effect, toOwner }
  }) as Effect[]
}

const beyondForm = 'has extra bytes or accounts'

const opaque = (target: string, reason: string): Effect => ({ kind: 'opaque', target, reason })
