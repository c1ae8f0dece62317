import { base58 } from '@scure/base'
import { readU64 } from '../../../core/solana/bytes.ts'
import type { Instruction, Message } from '../../../core/solana/message.ts'
import {
  associatedTokenProgram,
  computeBudgetProgram,
  memoProgram,
  tokenProgramAddress,
} from '../../../core/solana/programs.ts'
import { tokenAccountOf } from '../../../core/solana/tokenAccountOf.ts'
import { accountRent } from '../../effects/accountRent.ts'
import { type AssetRef, type AssetTable, unknownAsset } from '../../effects/assets.ts'
import type { VaultChain } from '../../effects/chains.ts'
import type { Effect } from '../../effects/effect.ts'

const systemProgram = '1'.repeat(32)
const computeBudget = base58.encode(computeBudgetProgram)
const memo = base58.encode(memoProgram)
const associatedToken = base58.encode(associatedTokenProgram)
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** SPL Token takes the largest amount for "everything". */
const max64 = 2n ** 64n - 1n

export interface InstructionContext {
  readonly chain: VaultChain
  readonly assets: AssetTable
}

/**
 * What a message does, one instruction after the other. Each form has exactly its bytes and accounts; anything else, and
 * anything that reaches into a lookup table, is opaque: what a table holds when the transaction lands is not in it. Programs
 * pass over bytes and accounts behind those that they need, so a transfer or allowance with more of them is what it is, beside
 * being opaque: the rest must not make a question of what the rules refuse, nor keep it from being counted.
 * Compute-budget instructions are the fee's affair and have no effect of their own.
 */
export function readInstructions(message: Message, context: InstructionContext): Effect[] {
  const effects: Effect[] = []
  if (message.lookupTables > 0) {
    effects.push(
      opaque('address lookup tables', 'takes accounts from tables that are not in the transaction'),
    )
  }
  for (const instruction of message.instructions) {
    effects.push(...readOne(instruction, message, context))
  }
  return nameOwners(effects)
}

/** The program and accounts of one instruction by address, and its data; the form that the readers below compare. */
interface Named {
  readonly program: string
  readonly accounts: readonly string[]
  readonly data: Uint8Array
  /** Whether the account at a place signs the transaction. */
  signs(place: number): boolean
}

function readOne(instruction: Instruction, message: Message, context: InstructionContext): Effect[] {
  const places = [instruction.program, ...instruction.accounts]
  if (places.some((place) => place >= message.keys.length))
    return [opaque('address lookup tables', 'uses an account that only a table names')]
  const [program, ...accounts] = places.map((place) => base58.encode(message.keys[place]!))
  const named: Named = {
    program: program!,
    accounts,
    data: instruction.data,
    signs: (place) => instruction.accounts[place]! < message.requiredSignatures,
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
      // readFee has looked at these; it calls what it does not know opaque.
      return []
    case memo:
      return readMemo(named)
    default:
      return [opaque(program!, 'calls a program that is not known')]
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
  if (kind === 4) return [opaque(program, 'uses a durable nonce, so the transaction stays good for any time')]
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
  // Who does not sign can be a multisig account, whose signers come behind it: not our money.
  const isOfSigner = accounts.length >= count && signs(count - 1)
  if ((isChecked || isPlain) && data.length >= length && isOfSigner) {
    // One account more is a signer of a multisig account, or belongs to a hook that is called.
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
  // TransferCheckedWithFee: the fee is a part of the amount, and only the mint knows how much of it is right.
  const isWithFee = kind === 'token-2022' && tag === 26 && data[1] === 1 && data.length >= 19
  if (isWithFee && accounts.length >= 4 && signs(3)) {
    const [, mint, to, from] = accounts as [string, string, string, string]
    const asset = mintedBy(mint, kind, data[10]!, context)
    return [
      opaque(program, 'transfers and names a fee of the token, which its mint takes'),
      { kind: 'transfer', asset, amount: readU64(data, 2), from, to, via: 'transferCheckedWithFee' },
    ]
  }
  const known: Record<number, string> = {
    6: 'hands over the rights to an account or a mint (SetAuthority)',
    9: 'closes a token account (CloseAccount)',
  }
  return [opaque(program, known[tag ?? -1] ?? `calls a token instruction (${tag}) that is not known`)]
}

/** The asset of a mint when mint, program and decimals are all those that are pinned. */
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

/** Transfer and Approve do not name their mint. It is proved where the source is an associated account of a pinned one. */
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
  if (!isRight) return [opaque(program, 'makes a token account in a way that is not known')]
  const rent = accountRent[asset.program ?? 'token']
  const made: Effect = { kind: 'account', account: account!, owner: owner!, asset, payer: payer!, rent }
  return accounts.length === 6 ? [made] : [opaque(program, beyondForm), made]
}

function readMemo({ program, data, accounts, signs }: Named): Effect[] {
  // Accounts of a memo only have to sign; one that does not makes it fail.
  if (!accounts.every((_, place) => signs(place))) return [opaque(program, 'writes a memo for others')]
  try {
    return [{ kind: 'note', text: utf8.decode(data) }]
  } catch {
    return [opaque(program, 'writes a memo that is no text')]
  }
}

/** Says whose account a transfer goes to where the same transaction makes that account. */
function nameOwners(effects: readonly Effect[]): Effect[] {
  const owners = new Map(
    effects.flatMap((e) => (e.kind === 'account' ? [[e.account, e.owner] as const] : [])),
  )
  return effects.map((effect) => {
    const toOwner = effect.kind === 'transfer' ? owners.get(effect.to) : undefined
    return toOwner === undefined ? effect : { ...effect, toOwner }
  }) as Effect[]
}

const beyondForm = 'has bytes or accounts beyond those of its form'

const opaque = (target: string, reason: string): Effect => ({ kind: 'opaque', target, reason })
