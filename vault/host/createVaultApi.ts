import { createHash } from 'node:crypto'
import type { VaultOperation, VaultPorts, VaultResponse } from '../../core/plugin/vault.ts'
import type { Log } from '../../core/ports/log.ts'
import { createAgents, isSuspended } from '../agents/agents.ts'
import { createOwnerSessions } from '../agents/ownerSessions.ts'
import { type ApprovalRecord, type Question, viewApproval } from '../approvals/approval.ts'
import { ApprovalBook } from '../approvals/approvalBook.ts'
import type { AssetTable, VaultChain } from '../effects/assets.ts'
import type { ChainPlugin } from '../effects/chainPlugin.ts'
import type { ChargeRpc, PaymentRpc } from '../effects/payment.ts'
import { VaultError } from '../errors/error.ts'
import type { VaultClock } from '../ports/clock.ts'
import type { VaultEgress } from '../ports/egress.ts'
import type { Pairings } from '../ports/pairings.ts'
import type { Vault } from '../ports/vault.ts'
import { keyRequest } from '../requests/agentRequests.ts'
import { askedFields } from '../requests/request.ts'
import type { PluginLimits } from '../sandbox/sandboxedPlugin.ts'
import { freezeJson } from '../sandbox/wire.ts'
import { createAgentsApi, createPairingsApi } from './api/agentsApi.ts'
import { createApprovalQueue, createApprovalsApi } from './api/approvalsApi.ts'
import { createCustodyApi } from './api/custodyApi.ts'
import { createInsightApi } from './api/insightApi.ts'
import { createLockApi, createPageApi } from './api/lockApi.ts'
import { createPoliciesApi } from './api/policiesApi.ts'
import { actionOf, createAuditing, eventOfApproval } from './auditing.ts'
import { createBus, type VaultEvent } from './bus.ts'
import {
  assertKnown,
  callerId,
  createAssertAdmitted,
  createGate,
  type OwnerContext,
  type RequestContext,
} from './caller.ts'
import { ChargeChecks } from './chargeChecks.ts'
import { Idempotency } from './idempotency.ts'
import { StoredRules } from './ownerRules.ts'
import { type OwnerWarning, ownerWarnings } from './ownerWarnings.ts'
import { createApproving, isHeld } from './phases/approve.ts'
import {
  assertStillAllowed,
  createGranting,
  createIdentify,
  createPlanning,
  createRuling,
  grants,
} from './phases/authorize.ts'
import { Performing } from './phases/perform.ts'
import { buildPipelines, createPluginStore, type VaultPluginEntry } from './pipelines.ts'
import { VaultCall } from './vaultCall.ts'

export const DEFAULT_WAIT_MS = 25_000
export const LONGEST_WAIT_MS = 120_000

export interface VaultApiDeps {
  readonly vault: Vault
  readonly chains: readonly ChainPlugin[]
  readonly enabled: readonly VaultChain[]
  readonly assets: AssetTable
  readonly egress: VaultEgress
  readonly rpc: PaymentRpc
  /** The owner's nodes of EVM chains. Default: none, so that nothing is given back. */
  readonly chargeRpc?: ChargeRpc
  readonly clock: VaultClock
  readonly log: Log
  /** Returns the address at which agents reach the vault. The vault must be listening. */
  readonly localUrl: () => string
  readonly plugins?: readonly VaultPluginEntry[]
  /** Time limits of plugins. Default: 5 s per request. */
  readonly pluginLimits?: PluginLimits
  /** Network access of plugins. Default: public addresses only. */
  readonly pluginEgress?: VaultPorts['egress']
  /** Absent where no relay is configured. */
  readonly pairings?: Pairings
}

/**
 * All operations of the vault, one method each. HTTP, MCP, the relay and the approvals page all call these methods, so no
 * transport has operations of its own. Methods throw {@link VaultError}s. Any other error is unexpected, and the transport
 * returns a plain 500 for it.
 */
export type VaultApi = Awaited<ReturnType<typeof createVaultApi>>

/**
 * Builds the vault's API, in which one pipeline handles every request of every transport.
 *
 * @throws {Error} when a plugin fails its setup
 */
export async function createVaultApi(parts: VaultApiDeps) {
  const { vault, assets, clock, log } = parts
  const { records, budget, audit } = vault
  const registry = createAgents(records, clock)
  const sessions = createOwnerSessions(clock)
  const rules = new StoredRules({ records, budget, assets, clock })
  const bus = createBus()
  const idempotency = new Idempotency()
  const book = new ApprovalBook({ records, clock, events: { changed, wornOut } })
  let isLoaded = false

  book.watch((record) =>
    bus.publish({ type: 'approval', agentId: record.agentId, approval: viewApproval(record, 'page') }),
  )
  const unwatchLog = audit.onWarning(({ code, message, action }) => log.warn({ code, action }, message))
  const unwatchLock = vault.onLock((reason) => {
    isLoaded = false
    book.unload()
    if (reason === 'signer')
      log.error(
        {},
        'the signing process exited unexpectedly, so the vault is locked until the owner unlocks it',
      )
    bus.publish({ type: 'locked', reason })
  })
  const approvalQueue = createApprovalQueue(vault, book, bus, log)
  /** Why a channel cannot deliver approvals, by plugin id. */
  const troubles = new Map<string, string>()
  const assertAdmitted = createAssertAdmitted(clock)
  const gate = createGate(vault, audit, assertAdmitted)
  const charges = new ChargeChecks({
    ...parts,
    chargeRpc: parts.chargeRpc ?? (() => undefined),
    nameOf: (id) => registry.get(id)?.name,
  })
  const inner = { ...parts, rules, charges }
  const performing = new Performing(vault, book)
  const programs = await buildPipelines(
    [
      createIdentify(vault, assertAdmitted),
      createGranting(inner),
      createPlanning(inner),
      grants,
      createRuling(inner, (x) => isHeld(book, x)),
      createApproving(vault, book, (x) => assertStillAllowed(registry.get(x.caller.id), x, rules)),
      performing,
      createAuditing(audit),
    ],
    parts.plugins ?? [],
    (place) => ({
      clock,
      log,
      approvals: {
        ...approvalQueue,
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

  /** Updates budget and log after a change of an approval, before the watchers are notified. */
  async function changed(record: ApprovalRecord): Promise<void> {
    if (record.reservationId !== null) {
      if (record.state === 'consumed') budget.commit(record.reservationId)
      else if (record.state !== 'pending' && record.state !== 'approved')
        await budget.release(record.reservationId).catch((err: unknown) => {
          log.warn({ err, approval: record.id }, 'reserved money could not be released')
        })
    }
    const event = eventOfApproval(record)
    if (event !== null) await audit.append(event)
  }

  /** Shows a notice where the owner decides approvals, and logs it. */
  async function wornOut({ agentId, agentName, operation }: Question, words: string): Promise<void> {
    bus.publish({
      type: 'notice',
      agentId,
      text: `${agentName} sends too many requests and has to wait. ${words}`,
    })
    const event = { agent: agentName, action: actionOf(operation), status: 'DENIED' } as const
    await audit.append({ ...event, code: 'RATE_LIMIT_EXCEEDED', note: words })
  }

  /** Loads agents and open approvals after each unlock, and commits or releases the money that a crash left reserved. */
  async function load(): Promise<void> {
    if (isLoaded) return
    isLoaded = true
    try {
      registry.load()
      rules.load()
      const open = budget.unresolved()
      await book.load()
      await performing.settle(open, log)
      // The next payment is then signed after a final block is known.
      void charges.checkNow()
    } catch (error) {
      isLoaded = false
      throw error
    }
  }

  return {
    /** Finds the agent or owner session of a token, for transports. */
    registry,
    sessions,
    /** Open approvals and the owner's decisions on them, for approval channels in this process. */
    approvalQueue,
    /** Returns an agent as a caller, for the relay and MCP, which authenticate agents themselves. */
    agentOf: (id: string) => registry.get(id),
    /** The enabled chains in display order, and the address where agents reach this vault. */
    about: () => ({ chains: parts.enabled, localUrl: parts.localUrl() }),

    /** Runs an operation of the pipeline by name: `get_address {chain}`, `vault_read {scope}`, `vault_sign_tx {…}` … */
    async request(
      operation: VaultOperation,
      input: unknown,
      context: RequestContext,
    ): Promise<VaultResponse> {
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
    /** Warnings about the unlocked vault with their remedies. Only the owner gets them. */
    warnings: ({ caller }: OwnerContext): readonly OwnerWarning[] =>
      caller.kind === 'owner' ? ownerWarnings({ ...inner, registry, troubles }) : [],
    ...createInsightApi(inner, gate, registry),
    approvals: createApprovalsApi(gate, book),
    agents: createAgentsApi(gate, registry, book),
    policies: createPoliciesApi(gate, registry, rules, assets, budget),
    pairings: createPairingsApi(gate, registry, parts.pairings),

    /** Access to the approvals page in a browser. */
    page: createPageApi(gate, sessions, clock, parts.localUrl),

    /** Operations on keys, password and backups, only on the owner's socket. */
    custody: createCustodyApi(vault),

    /** Creates a browser session of the approvals page, for a caller on the owner's socket. */
    createOwnerSession({ caller }: OwnerContext) {
      if (caller.kind !== 'owner' || caller.via !== 'socket') throw new VaultError('OWNER_REQUIRED')
      const { token, expiresAtMs } = sessions.create()
      return { token, expires_at: new Date(expiresAtMs).toISOString() }
    },
    /**
     * Subscribes the caller to events. The owner gets all events, an agent those of its own approvals. @returns a function
     * that unsubscribes
     */
    watch({ caller }: OwnerContext, listener: (event: VaultEvent) => void): () => void {
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
      charges.close()
      unwatchLock()
      unwatchLog()
      sessions.endAll()
      await programs.close()
      book.unload()
      await vault.close()
    },
  }
}

/** The idempotency key of a request, from its body or its header. @throws `VALIDATION_ERROR` */
function keyOf(named: unknown, header: string | undefined): string | undefined {
  const { idempotency_key: key = header } =
    named === undefined ? {} : keyRequest.check({ idempotency_key: named })
  if (header === undefined || key === header) return key
  throw new VaultError(
    'VALIDATION_ERROR',
    'idempotency_key: Expected the same value as the Idempotency-Key header, or only one of the two.',
  )
}
