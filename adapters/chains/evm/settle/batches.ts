import type { EvmCall } from '../../../../core/evm/token.ts'
import { uintWord } from '../../../../core/evm/words.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { EvmSettlerOptions } from '../options.ts'
import type { EvmKeys } from './evmKeys.ts'
import type { Sent } from './landing.ts'
import { aggregate3, multicall3 } from './multicall.ts'
import type { Store } from './settlingAccount.ts'

/**
 * Gas that each payment adds to what a transaction of many may use: about twice what a transfer of USDC by authorisation
 * takes to an account that had none. What is not used is not paid.
 */
const CALL_GAS = 150_000
const BASE_GAS = 60_000
/** A transaction may ask for this part of a block at most: a larger one waits for an emptier block than the others. */
const BLOCK_PARTS = 4n
/** The longest that the first payment of a group waits, in ms, while others come one after the other. */
const LONGEST_TIMES = 10
/** After a transaction of several that left out a payment which could land by itself: so long each is sent alone, in ms. */
const ALONE_MS = 60_000
/** After an answer that there is no Multicall3 here, and after no answer. */
const ASK_AGAIN_MS = 600_000
const RETRY_MS = 30_000

export interface BatchesParts {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly keys: EvmKeys
}

/**
 * Settles payments that come at the same time by one transaction: Multicall3 makes their calls, and each may fail by itself.
 * Only payments of plain accounts: their call costs what the token's own code costs, while a wallet's code could use up what
 * was meant for the others. Whichever key sends it is chosen when it is full: so it is transactions that are spread over keys.
 */
export interface Batches {
  /** Finds out whether the chain has Multicall3; before that nothing is joined. Never rejects. */
  probe(): Promise<void>
  /** Whether payments are joined at all. */
  readonly isOn: boolean
  /**
   * Waits for others for a moment. Never rejects.
   *
   * @returns `alone` where it has to be sent by itself, with bytes of its own; `not_stored` where its store has said no
   */
  join(call: EvmCall, store: Store): Promise<Sent | 'alone' | 'not_stored'>
  /** A payment that a transaction of several left out could land by itself: whatever it was, it is not asked for again now. */
  distrust(): void
}

export function createBatches(parts: BatchesParts): Batches {
  const { options, rpc, keys } = parts
  const { network, log, clock, maxPaymentsPerTransaction: most, gatherMs } = options
  const callGas = Math.min(CALL_GAS, options.maxGas)
  let isThere = false
  let askedAtMs = Number.NEGATIVE_INFINITY
  let askAgainMs = RETRY_MS
  let aloneUntilMs = Number.NEGATIVE_INFINITY
  let group: Joining[] = []
  let firstAtMs = 0
  let timer: NodeJS.Timeout | undefined

  /** An address without code takes any call and does nothing: whatever stands there has to answer as Multicall3 does. */
  const probe = async (): Promise<void> => {
    askedAtMs = clock.now()
    askAgainMs = RETRY_MS
    try {
      const answer = await rpc.call('eth_call', { to: multicall3, data: aggregate3([]).data }, 'latest')
      isThere = answer === noResults
    } catch {
      return
    }
    askAgainMs = ASK_AGAIN_MS
    log.debug({ network, isThere }, 'the chain was asked for Multicall3')
  }

  const mostOf = (): number => {
    const blockGas = keys.all[0]!.heads.lately()?.blockGas
    if (blockGas === undefined) return most
    const room = (Number(blockGas / BLOCK_PARTS) - BASE_GAS) / callGas
    return Math.max(1, Math.min(most, Math.floor(room)))
  }

  const flush = (): void => {
    clearTimeout(timer)
    timer = undefined
    const members = group
    group = []
    if (members.length === 1) members[0]!.resolve('alone')
    else void settleTogether(members)
  }

  /** @param isAgain without those whose stores have said no to the first transaction */
  const settleTogether = async (members: readonly Joining[], isAgain = false): Promise<void> => {
    try {
      const gas = BASE_GAS + members.length * callGas
      const call = aggregate3(members.map((member) => member.call))
      const stores = members.map(({ store }) => store)
      const sending = await keys.send(call, gas, stores)
      if (sending.ok) {
        const { sent, isStored } = sending
        if (sent !== undefined) {
          for (const { resolve } of members) resolve(sent)
          return
        }
        // Bytes that charge somebody who does not stand in the books are never sent: the others go without it. Anybody can have such a
        // one at any time, and must not keep all others from being settled together; twice in a row nobody waits for that.
        for (const [i, { resolve }] of members.entries()) if (!isStored[i]) resolve('not_stored')
        const others = members.filter((_, i) => isStored[i])
        if (!isAgain && others.length > 1) return await settleTogether(others, true)
      }
    } catch (error) {
      log.warn({ network, error: String(error) }, 'payments could not be settled together')
    }
    for (const { resolve } of members) resolve('alone')
  }

  return {
    probe,
    get isOn() {
      if (most === 1) return false
      if (Math.abs(clock.now() - askedAtMs) >= askAgainMs && !isThere) void probe()
      return isThere && performance.now() >= aloneUntilMs
    },
    join(call, store) {
      return new Promise((resolve) => {
        group.push({ call, store, resolve })
        if (group.length >= mostOf()) return flush()
        const nowMs = performance.now()
        if (group.length === 1) firstAtMs = nowMs
        clearTimeout(timer)
        const leftMs = Math.max(0, firstAtMs + LONGEST_TIMES * gatherMs - nowMs)
        timer = setTimeout(flush, Math.min(gatherMs, leftMs))
      })
    },
    distrust() {
      aloneUntilMs = performance.now() + ALONE_MS
      log.warn(
        { network },
        'a transaction of several payments left out a good one; each is sent alone for now',
      )
    },
  }
}

interface Joining {
  readonly call: EvmCall
  readonly store: Store
  readonly resolve: (outcome: Sent | 'alone' | 'not_stored') => void
}

/** An empty list of results, as a call returns it: where the list begins, and its length. */
const noResults = `0x${uintWord('32')}${uintWord('0')}`
