import { createHash } from 'node:crypto'
import type { VaultPorts } from '../../core/plugin/vault.ts'
import type { Log } from '../../core/ports/log.ts'
import { isSuspended } from '../agents/agent.ts'
import { createAgents } from '../agents/agents.ts'
import { createOwnerSessions } from '../agents/ownerSessions.ts'
import { type ApprovalRecord, type Question, viewApproval } from '../approvals/approval.ts'
import { createApprovalBook } from '../approvals/approvalBook.ts'
import type { AssetTable } from '../effects/assets.ts'
import type { ChainPlugin } from '../effects/chainPlugin.ts'
import type { VaultChain } from '../effects/chains.ts'
import type { PaymentRpc } from '../effects/payment.ts'
import { VaultError } from '../errors/error.ts'
import type { VaultClock } from '../ports/clock.ts'
import type { VaultEgress } from '../ports/egress.ts'
import type { Pairings } from '../ports/pairings.ts'
import type { Vault } from '../ports/vault.ts'
import { askedFields } from '../requests/request.ts'
import type { PluginLimits } from '../sandbox/sandboxedPlugin.ts'
import { createAgentsApi } from './api/agentsApi.ts'
import { createApprovalsApi } from './api/approvalsApi.ts'
import { createCustodyApi } from './api/custodyApi.ts'
import { createDesk } from './api/desk.ts'
import { createGate } from './api/gate.ts'
import { createInsightApi } from './api/insightApi.ts'
import { createLockApi } from './api/lockApi.ts'
import { createPageApi } from './api/pageApi.ts'
import { createPairingsApi } from './api/pairingsApi.ts'
import { createPoliciesApi } from './api/policiesApi.ts'
import { createBus } from './bus.ts'
import { assertKnown, callerId } from './caller.ts'
import { capabilitiesOf, vaultName } from './capabilities.ts'
import { actionOf, eventOfApproval } from './eventOf.ts'
import { freezeJson } from './freeze.ts'
import { createIdempotency, keyOf } from './idempotency.ts'
import { createStoredRules } from './ownerRules.ts'
import { ownerWarnings } from './ownerWarnings.ts'
import { createApproving, isHeld } from './phases/approve.ts'
import { createAuditing } from './phases/audit.ts'
import {
  assertStillAllowed,
  createGranting,
  createPlanning,
  createRuling,
  grants,
} from './phases/authorize.ts'
import { createIdentify } from './phases/identify.ts'
import { createPerforming } from './phases/perform.ts'
import { createPluginStore } from './pluginStore.ts'
import { buildPrograms, type VaultPluginEntry } from './programs.ts'
import { createAssertAdmitted } from './rate.ts'
import { settleReservations } from './settleReservations.ts'
import type { VaultApi } from './vaultApi.ts'
import { VaultCall } from './vaultCall.ts'

export const DEFAULT_WAIT_MS = 25_000
export const LONGEST_WAIT_MS = 120_000

export interface VaultApiParts {
  readonly vault: Vault
  readonly chains: readonly ChainPlugin[]
  readonly enabled: readonly VaultChain[]
  readonly assets: AssetTable
  readonly egress: VaultEgress
  readonly rpc: PaymentRpc
  readonly clock: VaultClock
  readonly log: Log
  /** Where agents reach it; known once it listens. */
  readonly localUrl: () => string
  readonly plugins?: readonly VaultPluginEntry[]
  /** How long plugins may take. Default: 5 s a request. */
  readonly pluginLimits?: PluginLimits
  /** The way out of plugins. Default: public addresses only. */
  readonly pluginEgress?: VaultPorts['egress']
  /** Absent where no relay is configured. */
  readonly pairings?: Pairings
}

/**
 * Puts the vault's host together: one pipeline for every request, whichever way it comes.
 *
 * @throws {Error} when a plugin refuses its set-up
 */
export async function createVaultApi(parts: VaultApiParts): Promise<VaultApi> {
  const { vault, assets, clock, log } = parts
  const { records, budget, audit } = vault
  const registry = createAgents(records, clock)
  const sessions = createOwnerSessions(clock)
  const rules = createStoredRules({ records, budget, assets, clock })
  const bus = createBus()
  const idempotency = createIdempotency()
  const book = createApprovalBook({ records, clock, events: { changed, wornOut } })
  let isLoaded = false

  book.watch((record) =>
    bus.publish({ type: 'approval', agentId: record.agentId, approval: viewApproval(record, 'page') }),
  )
  const unwatchLog = audit.onWarning(({ code, message, action }) => log.warn({ code, action }, message))
  const unwatchLock = vault.onLock((reason) => {
    isLoaded = false
    book.unload()
    if (reason === 'signer')
      log.error({}, 'the signing process ended by itself; the vault is locked until its owner unlocks it')
    bus.publish({ type: 'locked', reason })
  })
  const desk = createDesk(vault, book, bus, log)
  /** Why a channel can't ask, by its plugin's place. */
  const troubles = new Map<string, string>()
  const assertAdmitted = createAssertAdmitted(clock)
  const gate = createGate(vault, audit, assertAdmitted)
  const inner = { ...parts, rules }
  const programs = await buildPrograms(
    [
      createIdentify(vault, assertAdmitted),
      createGranting(inner),
      createPlanning(inner),
      grants,
      createRuling(inner, (x) => isHeld(book, x)),
      createApproving(vault, book, (x) => assertStillAllowed(registry.get(x.caller.id), x, rules)),
      createPerforming(vault, book),
      createAuditing(audit),
    ],
    parts.plugins ?? [],
    (place) => ({
      clock,
      log,
      approvals: {
        ...desk,
        trouble(problem) {
          if (problem === null) troubles.delete(place)
          else troubles.set(place, problem)
        },
      },
      egress: parts.pluginEgress ?? parts.egress([]),
      store: createPluginStore(records, place),
    }),
    parts.pluginLimits,
  )
  if (!vault.state.locked) await load()
  programs.start()

  /** Money and log follow each change of an approval; only then does anybody hear of it. */
  async function changed(record: ApprovalRecord): Promise<void> {
    if (record.reservationId !== null) {
      if (record.state === 'consumed') budget.commit(record.reservationId)
      else if (record.state !== 'pending' && record.state !== 'approved')
        await budget.release(record.reservationId).catch((err: unknown) => {
          log.warn({ err, approval: record.id }, 'money that was held back could not be given back')
        })
    }
    const event = eventOfApproval(record)
    if (event !== null) await audit.append(event)
  }

  /** The owner hears it where approvals are answered, and finds it in the log. */
  async function wornOut({ agentId, agentName, operation }: Question, words: string): Promise<void> {
    bus.publish({ type: 'notice', agentId, text: `${agentName} asks too much and has to wait. ${words}` })
    const event = { agent: agentName, action: actionOf(operation), status: 'DENIED' } as const
    await audit.append({ ...event, code: 'RATE_LIMIT_EXCEEDED', note: words })
  }

  /** After each unlock: reads who is known and what is open, and decides what a crash left undecided. */
  async function load(): Promise<void> {
    if (isLoaded) return
    isLoaded = true
    try {
      registry.load()
      rules.load()
      const open = budget.unresolved()
      await book.load()
      await settleReservations(open, { budget, book, log })
    } catch (error) {
      isLoaded = false
      throw error
    }
  }

  return {
    registry,
    sessions,
    desk,
    agentOf: (id) => registry.get(id),
    capabilities: (via) =>
      capabilitiesOf({
        name: vaultName,
        mode: 'local',
        localUrl: parts.localUrl(),
        chains: parts.enabled,
        via,
      }),

    async request(operation, input, context) {
      const { caller, requestId, waitMs = DEFAULT_WAIT_MS, signal, onAsked } = context
      if (typeof input !== 'object' || input === null || Array.isArray(input))
        throw new VaultError('VALIDATION_ERROR', 'Expected a JSON object as body.')
      const { idempotency_key: named, ...fields } = input as Record<string, unknown>
      const idempotencyKey = keyOf(named, context.idempotencyKey)
      const x = new VaultCall({
        operation,
        requestId,
        caller,
        input: freezeJson(fields),
        startedAtMs: clock.now(),
        waitMs: Math.max(0, Math.min(waitMs, LONGEST_WAIT_MS)),
        idempotencyKey: idempotencyKey ?? null,
        signal,
        onAsked,
      })
      if (idempotencyKey === undefined) return programs.run(x)
      const hash = createHash('sha256')
        .update(JSON.stringify([operation, askedFields(fields)]))
        .digest('hex')
      return idempotency.once({
        owner: callerId(caller),
        key: idempotencyKey,
        operation,
        requestHash: hash,
        admit: () => void gate.known(context),
        work: () => programs.run(x),
      })
    },

    ...createLockApi({ vault, bus, load, assertAdmitted }),
    warnings: ({ caller }) =>
      caller.kind === 'owner' ? ownerWarnings({ ...inner, registry, troubles }) : [],
    ...createInsightApi(inner, gate, registry),
    approvals: createApprovalsApi(gate, book),
    agents: createAgentsApi(gate, registry, book),
    policies: createPoliciesApi(gate, registry, rules, assets, budget),
    pairings: createPairingsApi(gate, registry, parts.pairings),

    page: createPageApi(gate, sessions, clock, parts.localUrl),

    custody: createCustodyApi(vault),

    createOwnerSession({ caller }) {
      if (caller.kind !== 'owner' || caller.via !== 'socket') throw new VaultError('OWNER_REQUIRED')
      const { token, expiresAtMs } = sessions.create()
      return { token, expires_at: new Date(expiresAtMs).toISOString() }
    },
    watch({ caller }, listener) {
      assertKnown(caller)
      if (caller.kind === 'owner') return bus.watch(listener)
      if (isSuspended(caller.agent)) throw new VaultError('AGENT_SUSPENDED')
      const id = callerId(caller)
      return bus.watch((event) => {
        if (event.type === 'notice') return
        if (event.type !== 'approval') return listener(event)
        const record = event.agentId === id ? book.get(event.approval.id) : undefined
        if (record !== undefined) listener({ ...event, approval: viewApproval(record, 'agent') })
      })
    },
    async close() {
      unwatchLock()
      unwatchLog()
      sessions.endAll()
      await programs.close()
      book.unload()
      await vault.close()
    },
  }
}
