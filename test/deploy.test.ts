// What lies in deploy/: read as its tools read it, as far as they are here. test/slow/image.test.ts runs the image's steps.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t from 'tap'
import { exitCodes } from '../cli/output/exitCodes.ts'
import { loadConfig } from '../core/config/loadConfig.ts'
import { gatewaySection } from '../core/config/sections/server.ts'
import { builtInPlugins } from '../plugins/builtIn.ts'
import { runTollgate, startGateway } from './e2e/helpers/child.ts'
import { commandOf, stagesOf } from './helpers/dockerfile.ts'
import { skipOrFail } from './helpers/redis.ts'

const root = resolve(import.meta.dirname, '..')
const docker = join(root, 'deploy/docker')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const stages = stagesOf(join(docker, 'Dockerfile'))
const image = stages.at(-1)!
const valuesOf = (name: string) => image.filter((line) => line.name === name).map(({ value }) => value)

t.test('every stage stands on the Node that the tests run on, by its version', async (t) => {
  const { node } = JSON.parse(read('package.json')).devDependencies
  t.ok(stages.length > 1)
  for (const [from] of stages)
    t.match(from!.value, new RegExp(`^node:${node.replaceAll('.', '\\.')}-slim( AS |$)`))
})

t.test('the image runs as nobody in particular, by number, and hears signals itself', async (t) => {
  t.match(valuesOf('USER').at(-1), /^[1-9]\d{3,}:[1-9]\d{3,}$/)
  const names = image.map(({ name }) => name)
  t.ok(
    names.lastIndexOf('RUN') < names.indexOf('USER'),
    'what is made, root made: whoever runs can not change it',
  )
  t.ok(names.lastIndexOf('COPY') < names.indexOf('USER'))
  t.notOk(image.some(({ value }) => /--ch(own|mod)/.test(value)))
  t.strictSame(commandOf(image, 'ENTRYPOINT'), ['node', '/opt/tollgate/cli/bin.js'])
  t.strictSame(commandOf(image, 'CMD'), ['start', '--config', '/etc/tollgate/tollgate.yaml'])
  t.strictSame(valuesOf('VOLUME'), ['["/data"]'])
})

t.test('nothing that builds, downloads or is secret is in the image', async (t) => {
  const all = image.map(({ name, value }) => `${name} ${value}`).join('\n')
  t.notMatch(all, /\b(apt|apk|curl|wget|npm|npx)\b/)
  t.notMatch(all, /^(ARG|ADD)\b/m)
  t.notMatch(all, /^ENV .*(SECRET|TOKEN|KEY|PASSWORD)/m)
  const copied = valuesOf('COPY').filter((value) => value.startsWith('--from=install '))
  t.strictSame(copied, ['--from=install /opt/tollgate /opt/tollgate'])
})

t.test('a change of the sources alone installs no package again', async (t) => {
  const steps = stages[0]!.filter(({ name }) => name === 'COPY' || name === 'RUN').map(({ value }) => value)
  const installs = steps.findIndex((step) => step.startsWith('npm install '))
  t.ok(installs > 0)
  for (const step of steps.slice(0, installs))
    t.match(step, /^(?:(?:package(?:-lock)?\.json|\.npmrc) )+\.\/$/)
  t.ok(steps.slice(installs).includes('. .'))
})

t.test('what is copied from the tree is there, and is not ignored', async (t) => {
  const ignored = read('deploy/docker/Dockerfile.dockerignore').split('\n')
  const sources = stages.flat().filter(({ name, value }) => name === 'COPY' && !value.startsWith('--from'))
  const files = sources.flatMap(({ value }) => value.split(' ').slice(0, -1))
  t.ok(files.length > 3)
  for (const file of files) {
    t.ok(existsSync(join(root, file)), file)
    t.notOk(ignored.includes(file) || ignored.includes(file.split('/')[0]!), file)
  }
  for (const secret of ['**/secret', '**/*.db*', '**/.env*', 'tollgate.yaml', '.git', '**/node_modules']) {
    t.ok(ignored.includes(secret), secret)
  }
})

t.test(
  "the image's configuration loads, keeps everything below /data and believes no proxy by itself",
  async (t) => {
    const names = builtInPlugins.map(({ name }) => name)
    const plugins = {
      names,
      defaults: names,
      load: (use: string) => builtInPlugins.find(({ name }) => name === use)!,
    }
    const load = (env: Record<string, string>) => loadConfig(join(docker, 'tollgate.yaml'), { env, plugins })
    await t.rejects(load({}), /TOLLGATE_PUBLIC_URL/, 'the address that buyers see is nobody else to guess')
    const { config, warnings } = await load({ TOLLGATE_PUBLIC_URL: 'https://pay.example.com' })
    t.strictSame(warnings, [])
    t.match(config, {
      gateway: { host: '0.0.0.0', port: 8080, trustedProxyCidrs: ['127.0.0.1/32'] },
      admin: { host: '127.0.0.1' },
      storage: { path: '/data/tollgate.db' },
      secretFile: '/data/secret',
    })
  },
)

t.test('the health check says yes only to a gateway that answers 200 at /healthz', async (t) => {
  const [program, file] = commandOf(image, 'HEALTHCHECK')
  t.equal(program, 'node')
  const script = join(docker, file!.replace('/opt/tollgate/', ''))
  let status = 200
  const server = createServer((request, response) => {
    response.statusCode = request.url === '/healthz' ? status : 404
    response.end()
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  t.equal(await statusOf(script, port), 0)
  status = 503
  t.equal(await statusOf(script, port), 1)
  await new Promise((done) => server.close(done))
  t.equal(await statusOf(script, port), 1, 'nobody listens')
})

function statusOf(script: string, port: number): Promise<number | null> {
  const child = spawn(process.execPath, [script], { env: { TOLLGATE_PORT: String(port) }, stdio: 'ignore' })
  return new Promise((done) => child.on('close', done))
}

const unit = read('deploy/systemd/tollgate.service')
const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
if (!hasSystemd) skipOrFail(t, 'systemd-analyze is not installed')

if (hasSystemd)
  t.test('systemd understands every line of the unit, and rates it as well protected', async (t) => {
    // It looks for the program and the manual, which a package would have put there.
    const file = join(t.testdir({}), 'tollgate.service')
    const verify = (text: string) => {
      writeFileSync(file, text)
      const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', file], {
        encoding: 'utf8',
      })
      return `${status} ${stderr}`.trim()
    }
    const here = unit.replace('/usr/bin/tollgate', process.execPath)
    t.equal(verify(here), '0')
    t.match(verify(here.replace('ProtectSystem=', 'ProtectSytem=')), /Unknown key.*ProtectSytem/)
    writeFileSync(file, here)
    const rating = spawnSync('systemd-analyze', ['security', '--offline=yes', '--threshold=20', file])
    t.equal(rating.status, 0, 'exposure of 2.0 or less, of 10')
  })

t.test(
  'the unit starts the gateway again for as long as it may help, and never for a wrong configuration',
  async (t) => {
    t.match(unit, /^StartLimitIntervalSec=0$/m)
    t.match(unit, /^Restart=always$/m)
    t.match(unit, new RegExp(`^RestartPreventExitStatus=${exitCodes.usage}$`, 'm'))
    t.match(unit, /^After=.*\bpostgresql\.service\b/m)
    const [, stopSeconds] = /^TimeoutStopSec=(\d+)$/m.exec(unit)!
    const { drainTimeoutMs, shutdownDelayMs } = gatewaySection.properties
    t.ok(Number(stopSeconds) * 1_000 > shutdownDelayMs.default + drainTimeoutMs.default + 5_000)

    const file = join(t.testdir({}), 'tollgate.yaml')
    const run = (config: object, env: Record<string, string> = {}) => {
      writeFileSync(
        file,
        JSON.stringify({ publicUrl: 'https://pay.example.com', secretFile: './secret', ...config }),
      )
      return runTollgate(t, ['start', '--config', file], env).exited
    }
    const away = { storage: { postgres: { url: 'postgres://tollgate@127.0.0.1:1/tollgate' } } }
    t.match(await run(away), { code: exitCodes.failed }, 'a database that is down')
    const wrong = [
      { gateway: { prot: 1 } },
      { storage: { postgres: { url: '${TOLLGATE_NOT_SET}' } } },
      { plugins: [{ use: './nothing.ts' }] },
      { plugins: [{ use: 'x402' }, { use: 'upstream' }] },
    ]
    for (const config of wrong) t.match(await run(config), { code: exitCodes.usage }, JSON.stringify(config))
  },
)

/** A datagram socket as systemd has one, and what came on it: Node has none of that kind, perl does. */
const listener = `use Socket; $| = 1; socket(my $s, PF_UNIX, SOCK_DGRAM, 0); bind($s, sockaddr_un($ARGV[0])) or die;
print "bound\\n"; while (defined recv($s, my $text, 4096, 0)) { print "$text\\n" }`

if (hasSystemd)
  t.test('systemd is told when the gateway serves, that it still runs, and when it stops', async (t) => {
    t.match(unit, /^Type=notify$/m)
    t.match(unit, /^NotifyAccess=all$/m)
    t.match(unit, /^WatchdogSec=\d+$/m)
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-notify-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const socket = join(folder, 'socket')
    const systemd = spawn('perl', ['-e', listener, socket], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.teardown(() => systemd.kill('SIGKILL'))
    let received = ''
    systemd.stdout.setEncoding('utf8').on('data', (text: string) => (received += text))
    const untilReceived = async (text: RegExp) => {
      while (!text.test(received)) await once(systemd.stdout, 'data')
    }
    await untilReceived(/^bound$/m)
    const file = join(folder, 'tollgate.yaml')
    const config = {
      publicUrl: 'https://pay.example.com',
      gateway: { port: 0 },
      admin: { port: 0 },
      storage: { path: './tollgate.db' },
      secretFile: './secret',
      log: { format: 'json' },
    }
    writeFileSync(file, JSON.stringify(config))
    const gateway = await startGateway(t, { file }, { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '200000' })
    await untilReceived(/^READY=1\n(.*\n)*WATCHDOG=1\n(.*\n)*WATCHDOG=1$/m)
    t.notMatch(received, /STOPPING/)
    gateway.signal('SIGTERM')
    await untilReceived(/^STOPPING=1$/m)
    t.equal((await gateway.exited).code, 0)
    t.notMatch(gateway.stderr(), /could not notify systemd/)
  })
