// The Helm chart: its templates as text, its values against their schema. Helm itself renders it where it is installed.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Ajv } from 'ajv'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { loadConfig } from '../core/config/loadConfig.ts'
import { builtInPlugins } from '../plugins/builtIn.ts'

const root = resolve(import.meta.dirname, '..')
const chart = join(root, 'deploy/helm/tollgate')
const read = (...path: string[]) => readFileSync(join(...path), 'utf8')
const templates = readdirSync(join(chart, 'templates')).map((name) => ({
  name,
  text: read(chart, 'templates', name),
}))
const braced = /\{\{-?\s*((?:(?!\{\{)[\s\S])*?)\s*-?\}\}/g
/** What stands between `{{` and `}}`, comments left out. */
const actionsOf = (text: string) =>
  [...text.matchAll(braced)].map(([, action]) => action!).filter((action) => !action.startsWith('/*'))
const allActions = templates.flatMap(({ text }) => actionsOf(text)).join('\n')
const namesIn = (pattern: RegExp) => new Set([...allActions.matchAll(pattern)].map(([, name]) => name!))

type Tree = Record<string, unknown>
interface Schema {
  readonly type?: string
  readonly properties?: Record<string, Schema>
  readonly additionalProperties?: unknown
}
const values = parse(read(chart, 'values.yaml'))
const schema = JSON.parse(read(chart, 'values.schema.json')) as Schema
const ajv = new Ajv({ allErrors: true, allowUnionTypes: true, strictRequired: true })
const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

t.test('the chart is of the version of the package', async (t) => {
  const { version } = JSON.parse(read(root, 'package.json'))
  t.match(parse(read(chart, 'Chart.yaml')), { version, appVersion: version })
})

t.test('every block of a template has its end, and every action its braces', async (t) => {
  t.ok(templates.length > 10)
  for (const { name, text } of templates) {
    t.notMatch(text.replaceAll(braced, ''), /\{\{|\}\}/, name)
    const open: string[] = []
    for (const action of actionsOf(text)) {
      const [word] = action.split(/\s/, 1) as [string]
      if (['if', 'with', 'range', 'define'].includes(word)) open.push(action)
      if (word === 'else') t.match(open.at(-1), /^(if|with|range) /, `${name}: ${action}`)
      if (word === 'end') t.type(open.pop(), 'string', `${name}: an end too many`)
    }
    t.strictSame(open, [], `${name}: without an end`)
  }
})

t.test('every template that is included is defined, and every one that is defined is included', async (t) => {
  const included = namesIn(/\binclude "([^"]+)"/g)
  t.ok(included.size > 5)
  t.strictSame([...included].sort(), [...namesIn(/^define "([^"]+)"/gm)].sort())
})

t.test('every value that a template reads has a default, and every value is read', async (t) => {
  const reads = [...namesIn(/\.Values\.([\w.]+)/g)]
  t.ok(reads.length > 30)
  for (const path of reads) {
    const value = path.split('.').reduce<unknown>((inner, key) => (inner as Tree)?.[key], values)
    t.not(value, undefined, path)
  }
  for (const leaf of leavesOf(values, schema))
    t.ok(
      reads.some((path) => leaf === path || leaf.startsWith(`${path}.`)),
      leaf,
    )
})

/** The paths of all values, down to those whose properties the schema leaves open, such as annotations. */
function leavesOf(value: unknown, at: Schema | undefined, path: string[] = []): string[] {
  if (!isTree(value) || !at?.properties) return [path.join('.')]
  return Object.entries(value).flatMap(([key, inner]) => leavesOf(inner, at.properties![key], [...path, key]))
}

t.test('the schema describes every value, and no value that is not there', async (t) => {
  const compare = (value: Tree, { properties, additionalProperties }: Schema, path: string) => {
    const described = Object.keys(properties!).filter((key) => key !== 'global')
    for (const key of described) t.ok(Object.hasOwn(value, key), `${path}${key} has a default`)
    const isOpen = path.startsWith('config.')
    t.equal(additionalProperties, isOpen ? undefined : false, `${path}: unknown keys`)
    if (!isOpen) t.strictSame(Object.keys(value).sort(), described.sort(), path)
    for (const [key, inner] of Object.entries(properties!))
      if (inner.properties && isTree(value[key])) compare(value[key], inner, `${path}${key}.`)
  }
  compare(values, schema, '')
})

t.test('the schema takes the defaults, and refuses what would not work', async (t) => {
  const isValid = ajv.compile(schema)
  t.ok(isValid(values), JSON.stringify(isValid.errors))
  const refused: [path: string, value: unknown, message: RegExp][] = [
    ['replicas', 3, /additional properties/],
    ['image.tag', 1.1, /must be string/],
    ['image.name', 'tollgate', /additional properties/],
    ['ingress.host', 'pay.example.com', /additional properties/],
    ['ingress.annotations', { 'a.example/b': true }, /must be string/],
    ['autoscaling.enabled', 'yes', /must be boolean/],
    ['config.storage', { path: './tollgate.db' }, /must have required property 'postgres'/],
    ['config.gateway.host', '127.0.0.1', /must be equal to one of/],
    ['config.monitoring.host', '127.0.0.1', /must be equal to one of/],
    ['config.gateway.drainTimeoutMs', '15s', /must be integer/],
    ['service.type', 'ExternalName', /must be equal to one of/],
    ['topologySpreadConstraints', [{ maxSkew: 1 }], /must have required property/],
    ['topologySpreadConstraints', [{ labelSelector: {} }], /boolean schema is false/],
  ]
  for (const [path, value, message] of refused) {
    const changed = structuredClone(values)
    const keys = path.split('.')
    const last = keys.pop()!
    keys.reduce((inner, key) => inner[key], changed)[last] = value
    t.notOk(isValid(changed), path)
    t.match(isValid.errors?.map((error) => error.message).join('\n'), message, path)
  }
})

t.test('the schema takes the values that the guide installs the chart with', async (t) => {
  const [, own] = /^cat > own\.yaml <<'END'\n([\s\S]*?)^END$/m.exec(
    read(root, 'docs/how-to/deploy-with-helm.md'),
  )!
  const merge = (under: Tree, over: Tree): Tree => {
    const both = Object.entries(over).map(([key, value]) => [
      key,
      isTree(value) && isTree(under[key]) ? merge(under[key], value) : value,
    ])
    return { ...under, ...Object.fromEntries(both) }
  }
  const isValid = ajv.compile(schema)
  t.ok(isValid(merge(values, parse(own!))), JSON.stringify(isValid.errors))
  t.notOk(isValid(parse(own!)), 'alone they are not enough: Helm adds the defaults')
})

t.test("the chart's configuration is one for several gateways", async (t) => {
  const file = join(t.testdir({}), 'tollgate.yaml')
  writeFileSync(file, JSON.stringify(values.config))
  const names = builtInPlugins.map(({ name }) => name)
  const { config, warnings } = await loadConfig(file, {
    env: {
      TOLLGATE_DATABASE_URL: 'postgres://tollgate:word@postgres:5432/tollgate',
      TOLLGATE_REDIS_URL: 'redis://redis:6379',
    },
    plugins: {
      names,
      defaults: names,
      load: (use) => builtInPlugins.find(({ name }) => name === use)!,
    },
  })
  t.strictSame(warnings, [])
  t.ok(values.replicaCount >= 2)
  t.match(config, { storage: { postgres: {} }, counters: { use: 'redis' } })
  t.ok(config.gateway.shutdownDelayMs >= 5000, 'load balancers have time to notice')
})

t.test('a pod has no more rights than it needs', async (t) => {
  t.strictSame(values.podSecurityContext, {
    runAsNonRoot: true,
    runAsUser: 1000,
    runAsGroup: 1000,
    fsGroup: 1000,
    seccompProfile: { type: 'RuntimeDefault' },
  })
  t.strictSame(values.securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  })
  for (const name of ['deployment.yaml', 'serviceaccount.yaml'])
    t.match(read(chart, 'templates', name), /^ *automountServiceAccountToken: false$/m, name)
})

t.test('the ingress has the settings of the shipped nginx.conf', async (t) => {
  const conf = read(root, 'examples/config/nginx.conf')
  const of = (name: string) => values.ingress.annotations[`nginx.ingress.kubernetes.io/${name}`]
  const says = (line: string) => t.ok(conf.includes(` ${line};`), line)
  says(`proxy_buffer_size ${of('proxy-buffer-size')}`)
  says(`proxy_buffers ${of('proxy-buffers-number')} ${of('proxy-buffer-size')}`)
  says(`client_max_body_size ${of('proxy-body-size')}`)
  for (const name of ['buffering', 'request-buffering', 'next-upstream'])
    says(`proxy_${name.replaceAll('-', '_')} ${of(`proxy-${name}`)}`)
  for (const name of ['read-timeout', 'send-timeout'])
    says(`proxy_${name.replaceAll('-', '_')} ${of(`proxy-${name}`)}s`)
})

const hasHelm = spawnSync('helm', ['version']).status === 0

t.test(
  'Helm finds nothing wrong with the chart, and renders what its values switch on',
  hasHelm ? {} : { skip: 'helm is not installed' },
  async (t) => {
    const helm = (...args: string[]) => spawnSync('helm', args, { encoding: 'utf8' })
    t.equal(helm('lint', '--strict', chart).status, 0)
    const render = (...args: string[]) => {
      const { stdout, stderr, status } = helm('template', 'shop', chart, ...args)
      t.equal(status, 0, stderr)
      return parseAllDocuments(stdout).map((document) => document.toJS())
    }
    const objects = render()
    t.strictSame(objects.map(({ kind }) => kind).sort(), [
      'ConfigMap',
      'Deployment',
      'PodDisruptionBudget',
      'Service',
      'Service',
      'ServiceAccount',
    ])
    const { spec } = objects.find(({ kind }) => kind === 'Deployment')
    t.equal(spec.replicas, 2)
    const { shutdownDelayMs, drainTimeoutMs } = values.config.gateway
    const pod = spec.template.spec
    t.ok(pod.terminationGracePeriodSeconds * 1000 > shutdownDelayMs + drainTimeoutMs + 5000)
    t.strictSame(pod.securityContext, values.podSecurityContext)
    t.strictSame(pod.containers[0].securityContext, values.securityContext)
    const map = objects.find(({ kind }) => kind === 'ConfigMap')
    t.strictSame(parse(map.data['tollgate.yaml']), values.config)

    const switches = ['ingress', 'autoscaling', 'metrics.serviceMonitor', 'metrics.prometheusRule']
    const all = render(...switches.flatMap((name) => ['--set', `${name}.enabled=true`]))
    for (const kind of ['Ingress', 'HorizontalPodAutoscaler', 'ServiceMonitor', 'PrometheusRule'])
      t.ok(
        all.some((object) => object.kind === kind),
        kind,
      )
    const scaled = all.find(({ kind }) => kind === 'Deployment')
    t.notOk(Object.hasOwn(scaled.spec, 'replicas'), 'the autoscaler alone says how many there are')
  },
)
