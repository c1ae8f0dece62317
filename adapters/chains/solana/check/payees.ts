import { setTimeout as sleep } from 'node:timers/promises'
import { base58 } from '@scure/base'
import { LRUCache } from 'lru-cache'
import type { Asset } from '../../../../core/domain/asset.ts'
import { networkTitle } from '../../../../core/domain/network.ts'
import type { Payee } from '../../../../core/ports/chains/settler.ts'
import type { Log } from '../../../../core/ports/log.ts'
import { tokenProgramAddress } from '../../../../core/solana/programs.ts'
import type { Rpc, WithContext } from '../rpc/createSolanaRpc.ts'
import type { SolanaRules } from './solanaRules.ts'

/** Most accounts that a node takes in one `getMultipleAccounts`. */
const MAX_ACCOUNTS = 100
/** Most payees that are asked for again in one round, oldest first. */
const MAX_AGAIN = 1_000
const CACHED_PAYEES = 10_000
/** Places in a token account, the same in both programs: owner, state. */
const ownerAt = 32
const stateAt = 108
const stateInitialised = 1
const stateFrozen = 2

export interface PayeesOptions {
  readonly rpc: Pick<Rpc, 'call'>
  readonly rules: SolanaRules
  readonly log: Log
  /** How often a payee that can not be paid is looked at again, in ms. */
  readonly againMs?: number
  /** How long it is worth waiting for a look, in ms. */
  readonly waitMs?: number
}

/** Whether sellers have an account of the token that they are to be paid in; a payment never makes one. */
export interface Payees {
  /** One object for each asset and wallet: it is read on every call and costs nothing then. */
  payee(asset: string, payTo: string): Payee
  close(): void
}

interface Entry extends Payee {
  fault: string | undefined
  looking: Promise<unknown> | undefined
  readonly asset: Asset
  readonly payTo: string
  readonly account: string
}

interface TokenAccount {
  readonly owner: string
  readonly data: readonly [string, string]
}

/**
 * Looks at a payee's account when it is first asked for, many in one call, and again every 20 s while it is missing or was
 * never seen. One that is there is looked at again only on request: accounts are hardly ever closed.
 */
export function createPayees(options: PayeesOptions): Payees {
  const { rpc, rules, log, againMs = 20_000, waitMs = 500 } = options
  const entries = new LRUCache<string, Entry>({
    max: CACHED_PAYEES,
    // Whoever holds it offers it as if nothing were known.
    dispose(entry) {
      open.delete(entry)
      entry.fault = undefined
    },
  })
  /** Missing, or not seen yet. */
  const open = new Set<Entry>()
  const queue = new Set<Entry>()
  let asking: Promise<boolean> | undefined
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

  const ask = async (asked: readonly Entry[]): Promise<boolean> => {
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
      log.debug({ error, payees: asked.length }, 'whether sellers can be paid on Solana could not be asked')
      return false
    } finally {
      arm()
    }
  }
  const askAll = async (asked: readonly Entry[]): Promise<boolean> => {
    let isAnswered = true
    for (let i = 0; i < asked.length; i += MAX_ACCOUNTS)
      isAnswered = (await ask(asked.slice(i, i + MAX_ACCOUNTS))) && isAnswered
    return isAnswered
  }
  /** Everybody who asks in the same turn of the loop shares the calls. */
  const look = (entry: Entry): Promise<boolean> => {
    if (isClosed) return Promise.resolve(false)
    queue.add(entry)
    asking ??= new Promise(setImmediate).then(() => {
      const asked = [...queue]
      queue.clear()
      asking = undefined
      return askAll(asked)
    })
    return Promise.race([asking, sleep(waitMs, false, { ref: false })])
  }
  const arm = () => {
    if (timer !== undefined || open.size === 0 || isClosed) return
    timer = setTimeout(async () => {
      await askAll([...open].slice(0, MAX_AGAIN))
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
      if (rule === undefined || account === undefined) return nobody
      const entry: Entry = {
        fault: undefined,
        looking: undefined,
        asset: rule.asset,
        payTo,
        account: base58.encode(account),
        look: () => look(entry),
      }
      entries.set(key, entry)
      open.add(entry)
      entry.looking = look(entry).finally(() => {
        entry.looking = undefined
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

/** For what the check of a payment refuses anyway. */
const nobody: Payee = { fault: undefined, looking: undefined, look: async () => false }

/** Why an account can't receive for the wallet, with what to do about it. */
function faultOf(found: TokenAccount | null, { asset, payTo, account }: Entry): string | undefined {
  const data =
    found?.owner === tokenProgramAddress[asset.program ?? 'token']
      ? Buffer.from(found.data[0], 'base64')
      : undefined
  const isTheirs = data !== undefined && base58.encode(data.subarray(ownerAt, ownerAt + 32)) === payTo
  if (isTheirs && data[stateAt] === stateInitialised) return undefined
  if (isTheirs && data[stateAt] === stateFrozen) {
    return `The account ${account} of the wallet ${payTo} is frozen: only the issuer of ${asset.symbol} can open it again. Take another wallet.`
  }
  return `The wallet ${payTo} has no account that can receive ${asset.symbol} on ${networkTitle(asset.network)}. Make its associated token account ${account} once, for example by sending any amount of ${asset.symbol} to the wallet.`
}
