// A vault with one agent, a rule that lets it pay, and a stored value. With `isRemote` also a relay and a proxy that is
// paired with it, in this process: what is counted then is all three. Prints {port, workers, token}.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { keepTickShape } from '../../cli/runtime/heap/tickObjectShape.ts'
import { initVault } from '../../cli/vault/initVault.ts'
import { openHost } from '../../cli/vault/openHost.ts'
import { silentLog } from '../../core/ports/log.ts'
import type { VaultApi } from '../../vault/host/createVaultApi.ts'
import { startVaultServer } from '../../vault/http/server.ts'
import { remoteRoutes } from '../../vault/operations/table.ts'
import { startProxy } from '../../vault/proxy/startProxy.ts'
import { startRelay } from '../../vault/relay/startRelay.ts'

const { folder, isRemote } = JSON.parse(process.argv[2]!) as { folder: string; isRemote: boolean }
const home = join(folder, 'vault')
const password = 'correct horse battery staple'
const owner = { caller: { kind: 'owner', via: 'socket' }, requestId: 'bench' } as const
const scopes = ['wallet.base', 'identity.name']

keepTickShape()
await initVault({ home, password, mnemonic: undefined })
const relay = isRemote ? await startRelay({ host: '127.0.0.1', port: 0 }) : undefined
const { api } = await openHost({
  home,
  password,
  relay: relay?.url,
  localUrl: () => 'http://127.0.0.1',
  log: silentLog,
})
const { token } = await api.agents.add({ name: 'payer', scopes, requestsPerMinute: 1e8 }, owner)
const limits = { perTransaction: '1', perDay: '1000000', autoApproveUpTo: '1' }
const fees = { perTransaction: '1', perDay: '1000000', autoApproveUpTo: '1' }
const assets = [
  { chain: 'base', symbol: 'USDC', ...limits },
  { chain: 'base', symbol: 'ETH', ...fees },
]
await api.policies.set('payer', { assets, fees: [{ chain: 'base', ...fees }], recipients: 'any' }, owner)
await api.request('vault_write', { scope: 'identity.name', value: 'Someone' }, owner)
const server = await startVaultServer(api, silentLog, { host: '127.0.0.1', port: 0 })
const port = relay === undefined ? server.address.port : await proxyPort(relay.url, api)
console.log(JSON.stringify({ port, workers: children(), token }))

async function proxyPort(relayUrl: string, api: VaultApi): Promise<number> {
  const offer = await api.pairings.create({ service_id: 'bench', agent: 'payer' }, owner)
  const words = offer.command.split(' ')
  const after = (name: string) => words[words.indexOf(name) + 1]!
  const starting = startProxy({
    pair: offer.token,
    serviceId: 'bench',
    vaultId: after('--vault'),
    hpkeKey: after('--hpke-key'),
    relay: relayUrl,
    routes: remoteRoutes,
    port: 0,
    home: join(folder, 'proxy'),
  })
  while (api.pairings.list(owner).pairings[0]?.phrase == null) await sleep(5)
  await api.pairings.confirm(offer.id, true, owner)
  return Number(new URL((await starting).url).port)
}

/** The signing process; its time counts, too. */
function children(): readonly number[] {
  const lists = readdirSync('/proc/self/task').map((task) =>
    readFileSync(`/proc/self/task/${task}/children`, 'latin1'),
  )
  return lists.join(' ').trim().split(/\s+/).filter(Boolean).map(Number)
}
