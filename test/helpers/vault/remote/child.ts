import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { remoteRoutes } from '../../../../vault/operations/table.ts'
import { type ProxyOptions, startProxy } from '../../../../vault/proxy/startProxy.ts'
import { startRelay } from '../../../../vault/relay/startRelay.ts'
import { startConnector } from '../../../../vault/remote/connector.ts'
import { createVaultIdentity, hpkeKeyOf, type VaultIdentity } from '../../../../vault/remote/identity.ts'
import type { PairingRecord } from '../../../../vault/remote/pairingRecord.ts'
import { eager } from './world.ts'

/** A process that a test can kill: `child.ts relay|proxy|vault {…}`; says one line of JSON when it is ready. */
const [role, text] = process.argv.slice(2)
const options = JSON.parse(text!)
const roles: Record<string, () => Promise<object>> = { relay, proxy, vault }
process.stdout.write(`${JSON.stringify(await roles[role!]!())}\n`)

async function relay(): Promise<object> {
  const { url } = await startRelay({ host: '127.0.0.1', port: options.port })
  return { url }
}

async function proxy(): Promise<object> {
  const { url } = await startProxy({ ...(options as ProxyOptions), routes: remoteRoutes, backoff: eager })
  return { url }
}

/** A vault that keeps its identity and its pairings in one file, and answers what it was asked. */
async function vault(): Promise<object> {
  const file: string = options.file
  const kept: { identity: VaultIdentity; records: Record<string, PairingRecord> } = existsSync(file)
    ? JSON.parse(readFileSync(file, 'utf8'))
    : { identity: createVaultIdentity('vault-child', 1), records: {} }
  const isNew = !existsSync(file)
  const save = () => writeFileSync(file, JSON.stringify(kept))
  save()
  const connector = await startConnector({
    identity: kept.identity,
    relay: options.relay,
    routes: remoteRoutes,
    backoff: eager,
    store: {
      list: async () => Object.values(kept.records),
      async put(record) {
        kept.records[record.id] = record
        save()
      },
      async delete(id) {
        delete kept.records[id]
        save()
      },
    },
    handle: async ({ body }) => ({ status: 200, body: body.byteLength > 0 ? body : '{}' }),
    confirm: async () => true,
  })
  const { vaultId } = kept.identity
  const fields = { url: options.relay, vaultId, hpkeKey: hpkeKeyOf(kept.identity) }
  if (!isNew) return fields
  const { token } = await connector.createPairing({ serviceId: 'bot', ttlMs: 600_000 })
  return { ...fields, token }
}
