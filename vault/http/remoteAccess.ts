import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import { VaultError } from '../errors/error.ts'
import type { VaultApi } from '../host/createVaultApi.ts'
import { bodyText, requestIdOf } from '../loopback/callers.ts'
import { remoteRoutes } from '../operations/table.ts'
import type { Pairings } from '../ports/pairings.ts'
import type { Records } from '../ports/records.ts'
import type { Vault } from '../ports/vault.ts'
import { type Connector, startConnector } from '../remote/connector.ts'
import { createVaultIdentity, rotateVaultIdentity, type VaultIdentity } from '../remote/identity.ts'
import type { PairingRequest } from '../remote/pairingQueue.ts'
import type { PairingRecord, PairingStore } from '../remote/pairingRecord.ts'
import type { RemoteRequest, RemoteResponse } from '../remote/remoteRequest.ts'
import { createDispatch, type Dispatch } from './dispatch.ts'

export interface RemoteAccessOptions {
  readonly vault: Vault
  /** `wss://…` */
  readonly relay: string
  /** PEM of the relay's certificate authority, if it is a private one. */
  readonly ca?: string
  readonly clock: Clock
  readonly log: Log
}

/**
 * The connection to the relay for paired remote agents. Its keys and pairings are in the vault's records, so it is open only
 * while the vault is unlocked.
 */
export interface RemoteAccess {
  readonly pairings: Pairings
  /** Starts to serve. Called once the API exists. */
  attach(api: VaultApi): Promise<void>
  close(): Promise<void>
}

const OFFER_TTL_MS = 15 * 60_000
const identityId = 'remote-identity'

export function createRemoteAccess({ vault, relay, ca, clock, log }: RemoteAccessOptions): RemoteAccess {
  const approvals = new Map<string, { phrase: string; respond: (isSame: boolean) => void }>()
  let connector: Connector | undefined
  let dispatch: Dispatch | undefined
  let api: VaultApi | undefined
  let stopWatching = (): void => {}
  let rotation: Promise<unknown> = Promise.resolve()
  // Starts and stops run one after the other. If an unlock follows a lock, the old connector must have stopped first.
  let turn: Promise<void> = Promise.resolve()
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    turn = turn
      .then(work)
      .catch((err: unknown) => log.error({ err }, 'the connection for remote agents failed'))
    return turn
  }
  const start = () =>
    inTurn(async () => {
      if (connector !== undefined || vault.state.locked) return
      connector = await startConnector({
        identity: await identityOf(vault, clock),
        relay,
        routes: remoteRoutes,
        store: storeOf(vault.records),
        handle,
        confirm,
        ...(ca !== undefined && { ca }),
        clock,
        log,
      })
    })
  const stop = () =>
    inTurn(async () => {
      await connector?.close()
      connector = undefined
    })

  async function handle({
    agentId,
    method,
    path,
    headers,
    body,
    signal,
  }: RemoteRequest): Promise<RemoteResponse> {
    const agent = api?.agentOf(agentId)
    if (dispatch === undefined || agent === undefined || agent.revokedAt !== null)
      throw new VaultError('UNAUTHORIZED')
    return dispatch({
      method,
      target: path,
      headers,
      body: bodyText(body),
      caller: { kind: 'agent', agent, via: 'relay' },
      requestId: requestIdOf({ headers }),
      signal,
    })
  }

  function confirm({ pairing, phrase, signal }: PairingRequest): Promise<boolean> {
    return new Promise((resolve) => {
      const respond = (isSame: boolean) => {
        approvals.delete(pairing.id)
        resolve(isSame)
      }
      approvals.set(pairing.id, { phrase, respond })
      signal.addEventListener('abort', () => respond(false), { once: true })
    })
  }
  function connected(): Connector {
    if (connector === undefined) throw new VaultError('VAULT_LOCKED')
    return connector
  }

  return {
    pairings: {
      list: () =>
        connected()
          .pairings()
          .map((pairing) => ({
            id: pairing.id,
            agent_id: pairing.agentId,
            service_id: pairing.serviceId,
            state: pairing.state,
            created_at: new Date(pairing.createdAtMs).toISOString(),
            expires_at: new Date(pairing.expiresAtMs).toISOString(),
            phrase: approvals.get(pairing.id)?.phrase ?? null,
          })),
      async create({ serviceId, agentId }) {
        const offer = await connected().createPairing({ serviceId, agentId, ttlMs: OFFER_TTL_MS })
        return {
          id: offer.pairing.id,
          token: offer.token,
          command: offer.command,
          expires_at: new Date(offer.pairing.expiresAtMs).toISOString(),
        }
      },
      async confirm(id, isSame) {
        const approval = approvals.get(id)
        if (approval === undefined)
          throw new VaultError('NOT_FOUND', 'This pairing is not waiting for a confirmation.')
        approval.respond(isSame)
      },
      async resume(id) {
        await connected().resume(id)
      },
      rotateKey() {
        // Rotations run one after the other, because each new key follows the stored one.
        const next = rotation.then(async () => {
          const used = connected()
          const identity = rotateVaultIdentity(await identityOf(vault, clock), clock.now())
          await vault.records.putJson('state', identityId, identity)
          used.useIdentity(identity)
          return identity.keys[0]!.generation
        })
        rotation = next.catch(() => undefined)
        return next
      },
      async revoke(id) {
        await connected().revoke(id)
      },
    },
    async attach(served) {
      api = served
      dispatch = createDispatch(served, log)
      stopWatching = served.watch(
        { caller: { kind: 'owner', via: 'socket' }, requestId: 'remote' },
        (event) => {
          if (event.type === 'unlocked') void start()
          if (event.type === 'locked') void stop()
        },
      )
      await start()
    },
    async close() {
      stopWatching()
      await stop()
    },
  }
}

async function identityOf({ records, vaultId }: Vault, clock: Clock): Promise<VaultIdentity> {
  const stored = records.getJson<VaultIdentity>('state', identityId)
  if (stored !== undefined) return stored
  const identity = createVaultIdentity(vaultId, clock.now())
  await records.putJson('state', identityId, identity)
  return identity
}

const storeOf = (records: Records): PairingStore => ({
  list: async () =>
    records
      .list('pairing')
      .map(({ id }) => records.getJson<PairingRecord>('pairing', id))
      .filter((record) => record !== undefined),
  put: async (record) => void (await records.putJson('pairing', record.id, record)),
  delete: async (id) => void (await records.delete('pairing', id)),
})
