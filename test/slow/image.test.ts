// The Docker image without Docker: the steps of its Dockerfile, and a container of the kernel's own parts for the result. That
// has the image's paths, its user, a read-only file system, process and network of its own, and the gateway as its process 1.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { commandOf, stagesOf } from '../helpers/dockerfile.ts'

const root = resolve(import.meta.dirname, '../..')
const docker = join(root, 'deploy/docker')
const image = stagesOf(join(docker, 'Dockerfile')).at(-1)!
const [userId, groupId] = image
  .findLast(({ name }) => name === 'USER')!
  .value.split(':')
  .map(Number)
const settings = image.filter(({ name }) => name === 'ENV').flatMap(({ value }) => value.split(' '))

const folder = mkdtempSync(join(tmpdir(), 'tollgate-image-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const own = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_OPTIONS|TAP)/.test(name)),
)
const run = (program: string, args: readonly string[], cwd: string) =>
  execFileSync(program, args, { cwd, env: own, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

const canIsolate = spawnSync('unshare', ['--mount', '--pid', '--net', '--fork', 'ip', 'link']).status === 0
const options = canIsolate ? {} : { skip: 'unshare and ip need root, and to be installed' }

/** Puts the container together and becomes its process 1. */
const containerScript = `set -eu
mount --bind "$ROOT" "$ROOT"
cd "$ROOT"
for name in usr lib lib64 bin; do
  if [ -L /$name ]; then ln -sfn "$(readlink /$name)" $name
  elif [ -d /$name ]; then mkdir -p $name; mount --bind -o ro /$name $name; fi
done
mkdir -p proc dev tmp
mount -t proc proc proc
mount --bind /dev dev
mount -t tmpfs tmpfs tmp
mount --bind "$NODE" opt/bin/node
mount --bind "$DATA" data
ip link set lo up
mount -o remount,bind,ro "$ROOT"
exec "$@"
`

/** As the image's user, in its folders, with its variables and `variables`. */
const inside = (command: readonly string[], variables: readonly string[] = []) => [
  ...[
    'setpriv',
    `--reuid=${userId}`,
    `--regid=${groupId}`,
    '--clear-groups',
    '--no-new-privs',
    '--bounding-set=-all',
  ],
  ...[
    'env',
    '--ignore-environment',
    '--chdir=/data',
    'PATH=/opt/bin:/usr/bin:/bin',
    ...settings,
    ...variables,
  ],
  ...command,
]

t.test(
  'the steps of the image give one that starts, is well, keeps its data and stops',
  options,
  async (t) => {
    const packed = run('npm', ['pack', '--silent', '--pack-destination', folder], root)
      .trim()
      .split('\n')
      .at(-1)!
    const files = join(folder, 'root')
    const installed = join(files, 'opt/tollgate')
    run(
      'sh',
      [join(docker, 'install.sh'), join(folder, packed), join(root, 'package-lock.json'), installed],
      folder,
    )

    const modules = readdirSync(join(installed, 'node_modules'))
    t.ok(modules.includes('fastify'))
    for (const unwanted of ['tap', 'typescript', 'litesvm', '@foundry-rs', '@biomejs', 'solc']) {
      t.notOk(modules.includes(unwanted), unwanted)
    }
    const megabytes = Number(run('du', ['-sm', installed], folder).split('\t')[0])
    t.ok(megabytes < 150, `${megabytes} MB`)
    t.comment(`the program and its packages are ${megabytes} MB`)

    for (const name of ['opt/bin', 'etc/tollgate', 'data']) mkdirSync(join(files, name), { recursive: true })
    writeFileSync(join(files, 'opt/bin/node'), '')
    writeFileSync(join(installed, 'healthy.mjs'), readFileSync(join(docker, 'healthy.mjs')))
    writeFileSync(join(files, 'etc/tollgate/tollgate.yaml'), readFileSync(join(docker, 'tollgate.yaml')))
    const data = join(folder, 'data')
    mkdirSync(data, { mode: 0o700 })
    chownSync(data, userId!, groupId!)

    for (const what of ['the first start', 'a start on the data of the first']) {
      await t.test(what, async (t) => {
        const container = start(files, data)
        t.teardown(() => container.kill('SIGKILL'))
        const first = await processOf(container)
        await running(container)
        const status = readFileSync(`/proc/${first}/status`, 'utf8')
        const commandLine = readFileSync(`/proc/${first}/cmdline`, 'utf8').replaceAll('\0', ' ')
        t.match(
          commandLine,
          /^\S*node .*\/opt\/tollgate\/cli\/bin\.js start /,
          'the gateway itself, not a shell',
        )
        t.match(status, new RegExp(`^Uid:\t${userId}\t${userId}\t`, 'm'))
        t.match(status, /^NSpid:\t\d+\t1$/m)
        t.match(status, /^CapEff:\t0+$/m)

        t.equal(enter(first, commandOf(image, 'HEALTHCHECK')).status, 0, 'the health check')
        const elsewhere = enter(first, commandOf(image, 'HEALTHCHECK'), ['TOLLGATE_PORT=1'])
        t.equal(elsewhere.status, 1, 'and it does look')
        for (const path of ['/opt/tollgate/x', '/etc/x', '/x']) {
          t.match(enter(first, ['touch', path]).stderr, /Read-only file system/, path)
        }

        const exited = once(container, 'exit')
        process.kill(first, 'SIGTERM')
        t.equal((await exited)[0], 0, 'docker stop ends it in order')
      })
    }
    t.ok(readdirSync(data).includes('tollgate.db'))
    t.ok(readdirSync(data).includes('secret'))
  },
)

function start(files: string, data: string): ChildProcess {
  const command = [...commandOf(image, 'ENTRYPOINT'), ...commandOf(image, 'CMD')]
  const script = ['sh', '-c', containerScript, 'sh', 'chroot', files]
  const variables = ['TOLLGATE_PUBLIC_URL=https://pay.example.com']
  return spawn(
    'unshare',
    ['--mount', '--pid', '--net', '--fork', '--kill-child', ...script, ...inside(command, variables)],
    { env: { ...own, ROOT: files, DATA: data, NODE: process.execPath }, stdio: ['ignore', 'ignore', 'pipe'] },
  )
}

/** The container's process 1 by its number out here. */
async function processOf({ pid }: ChildProcess): Promise<number> {
  for (;;) {
    const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')
    if (child) return Number(child)
    await new Promise(setImmediate)
  }
}

/** `docker exec`. */
function enter(first: number, command: readonly string[], variables: readonly string[] = []) {
  const spaces = ['--target', String(first), '--mount', '--pid', '--net', '--root']
  return spawnSync('nsenter', [...spaces, ...inside(command, variables)], { encoding: 'utf8' })
}

async function running({ stderr }: ChildProcess): Promise<void> {
  let output = ''
  for await (const line of createInterface({ input: stderr! })) {
    output += `${line}\n`
    if (line.includes('"tollgate is running"')) return
  }
  throw new Error(`It ended before it ran: ${output}`)
}
