// What lies in deploy/: read as its tools read it, as far as they are here. test/slow/image.test.ts runs the image's steps.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import t from 'tap'
import { loadConfig } from '../core/config/loadConfig.ts'
import { builtInPlugins } from '../plugins/builtIn.ts'
import { commandOf, stagesOf } from './helpers/dockerfile.ts'

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

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
const unitOptions = hasSystemd ? {} : { skip: 'systemd-analyze is not installed' }

t.test(
  'systemd understands every line of the unit, and rates it as well protected',
  unitOptions,
  async (t) => {
    // It looks for the program and the manual, which a package would have put there.
    const text = read('deploy/systemd/tollgate.service')
    const file = join(t.testdir({}), 'tollgate.service')
    const verify = (unit: string) => {
      writeFileSync(file, unit)
      const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', file], {
        encoding: 'utf8',
      })
      return `${status} ${stderr}`.trim()
    }
    const here = text.replace('/usr/bin/tollgate', process.execPath)
    t.equal(verify(here), '0')
    t.match(verify(here.replace('ProtectSystem=', 'ProtectSytem=')), /Unknown key.*ProtectSytem/)
    writeFileSync(file, here)
    const rating = spawnSync('systemd-analyze', ['security', '--offline=yes', '--threshold=20', file])
    t.equal(rating.status, 0, 'exposure of 2.0 or less, of 10')
  },
)
