// The compose file, which runs a gateway with PostgreSQL and Redis. Docker itself reads it where it is installed.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { loadConfig } from '../core/config/loadConfig.ts'
import { builtInPlugins } from '../plugins/builtIn.ts'

const deploy = resolve(import.meta.dirname, '../deploy')
const read = (...path: string[]) => readFileSync(join(...path), 'utf8')
const env = {
  TOLLGATE_PUBLIC_URL: 'https://pay.example.com',
  TOLLGATE_DATABASE_URL: 'postgres://tollgate:word@postgres:5432/tollgate',
  TOLLGATE_REDIS_URL: 'redis://redis:6379',
}

const names = builtInPlugins.map(({ name }) => name)
const plugins = {
  names,
  defaults: names,
  load: (use: string) => builtInPlugins.find(({ name }) => name === use)!,
}
const loaded = async (file: string) => {
  const { config, warnings } = await loadConfig(file, { env, plugins })
  return { config, warnings }
}

interface Service {
  readonly image: string
  readonly user?: string
  readonly ports?: readonly string[]
  readonly networks: readonly string[]
  readonly environment?: Record<string, string>
  readonly read_only?: boolean
  readonly cap_drop?: readonly string[]
  readonly security_opt: readonly string[]
  readonly stop_grace_period?: string
}
const compose = parse(read(deploy, 'compose/compose.yaml'))
const services = compose.services as Record<string, Service>

t.test(
  'in the compose file, only the gateway has a port, on this machine, and only the gateway reaches other networks',
  async (t) => {
    t.strictSame(Object.keys(services), ['gateway', 'postgres', 'redis', 'prometheus'])
    for (const [name, { ports = [], networks }] of Object.entries(services)) {
      const reached = { gateway: ['127.0.0.1:8080:8080'], prometheus: ['127.0.0.1:9090:9090'] }
      t.strictSame(ports, reached[name as keyof typeof reached] ?? [], name)
      t.equal(networks.includes('outside'), name === 'gateway', name)
    }
    t.equal(compose.networks.inside.internal, true)
  },
)

t.test(
  'its images have versions, its containers no more rights than they need, and no secret stands in it',
  async (t) => {
    for (const [name, service] of Object.entries(services)) {
      t.match(service.image, /^(prom\/)?[a-z]+:v?\d+\.\d+(\.\d+)?$/, name)
      t.strictSame(service.security_opt, ['no-new-privileges:true'], name)
      for (const [variable, value] of Object.entries(service.environment ?? {})) {
        if (/SECRET|PASSWORD|DATABASE_URL/.test(variable))
          t.match(value, /\$\{[A-Z_]+:\?/, `${name}: ${variable}`)
      }
    }
    for (const name of ['gateway', 'redis', 'prometheus']) {
      t.match(services[name], { read_only: true, cap_drop: ['ALL'] }, name)
    }
    const wanted = [...read(deploy, 'compose/compose.yaml').matchAll(/\$\{([A-Z_]+):\?/g)].map(
      ([, name]) => name,
    )
    const offered = [...read(deploy, 'compose/environment.example').matchAll(/^([A-Z_]+)=/gm)].map(
      ([, name]) => name,
    )
    t.strictSame([...new Set(wanted)].sort(), offered.sort(), 'the example has what has to be filled in')
  },
)

t.test(
  "the compose file's configuration keeps its data in PostgreSQL and its counters in Redis",
  async (t) => {
    const { config, warnings } = await loaded(join(deploy, 'compose/tollgate.yaml'))
    t.strictSame(warnings, [])
    t.match(config, {
      gateway: { host: '0.0.0.0', port: 8080 },
      storage: { postgres: { url: env.TOLLGATE_DATABASE_URL } },
      counters: { use: 'redis', url: env.TOLLGATE_REDIS_URL },
    })
    t.ok(
      Number.parseInt(services.gateway!.stop_grace_period!, 10) * 1000 > config.gateway.drainTimeoutMs + 5000,
    )
  },
)

t.test('a proxy on the machine of the compose file is believed, and nothing else is', async (t) => {
  const { config } = await loaded(join(deploy, 'compose/tollgate.yaml'))
  const [{ gateway }] = compose.networks.outside.ipam.config
  t.strictSame(config.gateway.trustedProxyCidrs, [`${gateway}/32`])
})

const hasCompose = spawnSync('docker', ['compose', 'version']).status === 0

t.test(
  'Docker understands the compose file',
  hasCompose ? {} : { skip: 'docker compose is not installed' },
  async (t) => {
    const filled = {
      ...process.env,
      TOLLGATE_PUBLIC_URL: 'https://a.example',
      TOLLGATE_SECRET: 'x',
      POSTGRES_PASSWORD: 'y',
    }
    const { status, stderr } = spawnSync(
      'docker',
      ['compose', '-f', join(deploy, 'compose/compose.yaml'), 'config', '--quiet'],
      { env: filled, encoding: 'utf8' },
    )
    t.equal(status, 0, stderr)
  },
)
