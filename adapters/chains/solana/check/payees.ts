import { setTimeout as sleep } from 'node:timers/promises'
import { base58 } from '@scure/base'
import { LRUCache } from 'lru-cache'
import type { Asset } from '../../../../core/domain/asset.ts'
import { networkTitle } from '../../../../core/domain/network.ts'
import type { Payee } from '../../../../core/ports/chains/settler.ts'
import type { Log } from '../../../../core/ports/log.ts'
import { tokenProgramAddress } from '../../../../core/solana/addresses.ts'
import type { Rpc, WithContext } from '../rpc/nodes.ts'
import type { SolanaRules } from './rules.ts'

/** Maximum number of accounts that a node accepts in one `getMultipleAccounts`. */
const MAX_ACCOUNTS = 100
/** Maximum number of payees that are rechecked in one round, oldest first. */
const MAX_AGAIN = 1_000
const CACHED_PAYEES = 10_000
/** Offsets of owner and state in a token account. They are the same in both token programs. */
const ownerAt = 32
const stateAt = 108
const stateInitialised = 1
const stateFrozen = 2

export interface PayeesOptions {
  readonly rpc: Pick<Rpc, 'call'>
  readonly rules: SolanaRules
  readonly log: Log
  /** How often a payee without a usable account is rechecked, in ms. */
  readonly againMs?: number
  /** How long a caller waits for a check, in ms. */
  readonly waitMs?: number
}

/** Checks whether sellers have an account of the token that buyers pay with. A payment never creates one. */
export interface Payees {
  /** Returns one object per asset and wallet. Reading the object on every call costs nothing. */
  payee(asset: string, payTo: string): Payee
  close(): void
}

interface Entry extends Payee {
  fault: string | undefined
  reading: Promise<unknown> | undefined
  readonly asset: Asset
  readonly payTo: string
  readonly account: string
}

interface TokenAccount {
  readonly owner: string
  readonly data: readonly [string, string]
}

/**
 * Checks a payee's account at the first request for the payee, many accounts in one call. The check is repeated every 20 s while
 * the account is missing or was never checked. An existing account is rechecked only on request, because accounts are rarely
 * closed.
 */
export function createPayees(options: PayeesOptions): Payees {
  const { rpc, rules, log, againMs = 20_000, waitMs = 500 } = options
  const entries = new LRUCache<string, Entry>({
    max: CACHED_PAYEES,
    // A caller that still holds the removed entry then sees the payee as unchecked.
    dispose(entry) {
      open.delete(entry)
      entry.fault = undefined
    },
  })
  /** Payees whose account is missing or not checked yet. */
  const open = new Set<Entry>()
  const queue = new Set<Entry>()
  let asking: Promise<boolean> | undefined
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

  const read = async (asked: readonly Entry[]): Promise<boolean> => {
    try {
      const { value } = await rpc.call<WithContext<(TokenAccount | null)[]>>(
        'getMultipleAccounts',
        asked.map(({ account }) => account),
        { encoding: 'base64', commitment: 'confirmed' },
      )
      for (const [i, entry] of asked.entries()) {
        const account = value[i]
        if (account === undefined) continue
        entry.fault = faultOf(account, entry)
        open.delete(entry)
        if (entry.fault !== undefined && entries.has(keyOf(entry.asset.address, entry.payTo))) open.add(entry)
      }
      return true
    } catch (error) {
      log.debug({ error, payees: asked.length }, 'the accounts of sellers on Solana could not be checked')
      return false
    } finally {
      arm()
    }
  }
  const readAll = async (asked: readonly Entry[]): Promise<boolean> => {
    let isAnswered = true
    for (let i = 0; i < asked.length; i += MAX_ACCOUNTS)
      isAnswered = (await read(asked.slice(i, i + MAX_ACCOUNTS))) && isAnswered
    return isAnswered
  }
  /** Requests in the same turn of the event loop share their calls. */
  const look = (entry: Entry): Promise<boolean> => {
    if (isClosed) return Promise.resolve(false)
    queue.add(entry)
    asking ??= new Promise(setImmediate).then(() => {
      const asked = [...queue]
      queue.clear()
      asking = undefined
      return readAll(asked)
    })
    return Promise.race([asking, sleep(waitMs, false, { ref: false })])
  }
  const arm = () => {
    if (timer !== undefined || open.size === 0 || isClosed) return
    timer = setTimeout(async () => {
      await readAll([...open].slice(0, MAX_AGAIN))
      timer = undefined
      arm()
    }, againMs)
    timer.unref()
  }

  return {
    payee(asset, payTo) {
      const key = keyOf(asset, payTo)
      const known = entries.get(key)
      if (known !== undefined) return known
      const rule = rules.assets.get(asset)
      const account = rule === undefined ? undefined : rules.destinationOf(payTo, rule)
      if (rule === undefined || account === undefined) return unchecked
      const entry: Entry = {
        fault: undefined,
        reading: undefined,
        asset: rule.asset,
        payTo,
        account: base58.encode(account),
        refresh: () => look(entry),
      }
      entries.set(key, entry)
      open.add(entry)
      entry.reading = look(entry).finally(() => {
        entry.reading = undefined
      })
      return entry
    },
    close() {
      isClosed = true
      clearTimeout(timer)
    },
  }
}

const keyOf = (asset: string, payTo: string) => `${asset}|${payTo}`

/** Used for payments that the check refuses for another reason. */
const unchecked: Payee = { fault: undefined, reading: undefined, refresh: async () => false }

/** Why an account cannot receive for the wallet, and what to do about it. */
function faultOf(found: TokenAccount | null, { asset, payTo, account }: Entry): string | undefined {
  const data =
    found?.owner === tokenProgramAddress[asset.program ?? 'token']
      ? Buffer.from(found.data[0], 'base64')
      : undefined
  const isTheirs = data !== undefined && base58.encode(data.subarray(ownerAt, ownerAt + 32)) === payTo
  if (isTheirs && data[stateAt] === stateInitialised) return undefined
  if (isTheirs && data[stateAt] === stateFrozen) {
    return `The account ${account} of the wallet ${payTo} is frozen, and only the issuer of ${asset.symbol} can unfreeze it. Use another wallet.`
  }
  return `The wallet ${payTo} has no account that can receive ${asset.symbol} on ${networkTitle(asset.network)}. Create its associated token account ${account} once, for example by sending any amount of ${asset.symbol} to the wallet.`
}
