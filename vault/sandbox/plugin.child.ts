import { createPluginLoader, type LoadablePlugin } from '../../core/kernel/pluginLoader.ts'
import {
  type AnyVaultPlugin,
  type VaultExchange,
  type VaultHook,
  type VaultHooks,
  type VaultPluginInstance,
  vaultOperations,
} from '../../core/plugin/vault.ts'
import { createChildPorts } from './childPorts.ts'
import { lockDown } from './lockDown.ts'
import { createLineReader, type FromPlugin, freezeJson, lineOf, type ToPlugin } from './wire.ts'

/**
 * The process of one plugin. It reads the vault's messages from standard input and writes its own to standard output. The
 * plugin's own output goes to standard error. The process ends when its input ends.
 */
const toVault = process.stdout.write.bind(process.stdout)
Object.defineProperty(process, 'stdout', { value: process.stderr })
const send = (message: FromPlugin): void => void toVault(lineOf(message))

const { ports, take } = createChildPorts(send)
const hooks = new Map<string, VaultHook>()
let plugin: AnyVaultPlugin | undefined
let instance: VaultPluginInstance | undefined

const messageOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).slice(0, 2_000)

async function load(message: Extract<ToPlugin, { t: 'load' }>): Promise<FromPlugin> {
  const { use, baseDir, isBuiltIn, names } = message
  // `names` is only for messages. A plugin that is not built in has none of these names.
  const builtIn = isBuiltIn
    ? (await import('../plugins/builtIn.ts')).builtInVaultPlugins
    : names.map((name) => ({ name }) as LoadablePlugin)
  const loader = createPluginLoader<LoadablePlugin>(builtIn, baseDir, 'vault')
  lockDown()
  plugin = (await loader.load(use)) as AnyVaultPlugin
  const { name, api, options, needs, slots } = plugin
  return { t: 'loaded', plugin: { name, api, options, needs, ...(slots && { slots }) } }
}

async function setUp({ options }: Extract<ToPlugin, { t: 'setup' }>): Promise<FromPlugin> {
  const { needs, setup } = plugin!
  const granted = Object.fromEntries(needs.map((need) => [need, ports[need]]))
  instance = await setup.call(plugin, options as never, { ports: Object.freeze(granted) } as never)
  const routes: Record<string, readonly string[]> = {}
  for (const operation of vaultOperations) {
    const given: VaultHooks | undefined = instance.route(operation)
    if (given === undefined || given === null) continue
    routes[operation] = Object.keys(given)
    for (const [phase, hook] of Object.entries(given))
      hooks.set(`${operation} ${phase}`, hook.bind(given) as VaultHook)
  }
  return { t: 'ready', routes }
}

async function decide(message: Extract<ToPlugin, { t: 'call' }>): Promise<void> {
  const { id, operation, phase, x } = message
  try {
    const decision = await hooks.get(`${operation} ${phase}`)!(freezeJson(x) as VaultExchange)
    send({ t: 'decided', id, ...(decision && { decision }) })
  } catch (error) {
    send({ t: 'threw', id, message: messageOf(error) })
  }
}

async function close(): Promise<void> {
  try {
    await instance?.close?.()
  } catch (error) {
    ports.log.warn({}, `the plugin failed to close: ${messageOf(error)}`)
  }
  toVault(lineOf({ t: 'closed' }), () => process.exit(0))
}

const orRefused = (work: Promise<FromPlugin>): void =>
  void work.catch((error: unknown): FromPlugin => ({ t: 'refused', message: messageOf(error) })).then(send)

function hear(message: ToPlugin): void {
  take(message)
  if (message.t === 'load') orRefused(load(message))
  else if (message.t === 'setup') orRefused(setUp(message))
  else if (message.t === 'start') instance?.start?.()
  else if (message.t === 'call') void decide(message)
  else if (message.t === 'close') void close()
}

// Ctrl-C and a service manager's stop signal reach the whole process group. They are ignored, because the vault decides when
// this process ends.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.stdin.on(
  'data',
  createLineReader(
    Number.MAX_SAFE_INTEGER,
    (message) => hear(message as ToPlugin),
    () => process.exit(70),
  ),
)
process.stdin.on('end', () => process.exit(0))
