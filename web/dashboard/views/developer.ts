import { useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Badge, Card, Empty } from '../../components/card.ts'
import { Dialog } from '../../components/dialog.ts'
import { Field } from '../../components/field.ts'
import { Table } from '../../components/table.ts'
import { Code, CodeBlock } from '../../components/tabs.ts'
import { Time } from '../../components/time.ts'
import { html } from '../../html.ts'
import { useForm } from '../../shell/form.ts'
import { Title } from '../../shell/frame.ts'
import { type Action, Fault, Load, useAction, useLoad } from '../../shell/load.ts'
import { msOf } from '../../shell/words.ts'
import { useSeller } from '../seller.ts'

interface KeyResponse {
  readonly id: string
  readonly name: string
  readonly keyPrefix: string
  readonly isActive: boolean
  readonly lastUsedAt: string | null
  readonly createdAt: string
}

/** API keys, each shown once, and code to start with. */
export function Developer() {
  const { store, publicUrl } = useSeller()
  if (!store.developerModeEnabled) {
    return html`<div class="stack"><${Title}>Developer<//>
      <${Empty} title="Developer Mode is off">
        <p>Turn on Developer Mode to manage API keys and webhooks. Existing keys keep working while the mode is off.</p>
        <${Button} href="/dashboard/profile">Open your profile<//>
      <//>
    </div>`
  }
  return html`<div class="stack"><${Title}>Developer<//>
    <${Keys} />
    <${Card} title="Getting started"><${CodeBlock} id="samples" label="Language" samples=${samplesFor(publicUrl)} /><//>
  </div>`
}

function Keys() {
  const { api } = useSeller()
  const loaded = useLoad(() => api<{ keys: readonly KeyResponse[] }>('GET', '/api/agent/keys'), [])
  const [isMaking, setMaking] = useState(false)
  const [revoked, setRevoked] = useState<KeyResponse>()
  const action = useAction()
  const making = useAction()
  const close = () => {
    if (making.isBusy) return
    making.clear()
    setMaking(false)
    loaded.reload()
  }
  const revoke = () =>
    action.run(async () => {
      await api('DELETE', `/api/agent/keys/${revoked!.id}`)
      setRevoked(undefined)
      loaded.reload()
    })
  const nowMs = Date.now()
  const columns = [
    {
      key: 'name',
      title: 'Key',
      cell: ({ name, keyPrefix }: KeyResponse) =>
        html`<span class="shell-main-cell" dir="auto">${name}</span><span class="mono soft small">${keyPrefix}…</span>`,
    },
    {
      key: 'state',
      title: 'State',
      cell: ({ isActive }: KeyResponse) =>
        isActive ? html`<${Badge} tone="good">Works<//>` : html`<${Badge}>Revoked<//>`,
    },
    {
      key: 'used',
      title: 'Last used',
      cell: ({ lastUsedAt }: KeyResponse) =>
        lastUsedAt === null
          ? html`<span class="soft">Never</span>`
          : html`<${Time} atMs=${msOf(lastUsedAt)} nowMs=${nowMs} />`,
    },
    {
      key: 'revoke',
      title: 'Actions',
      isTitleHidden: true,
      align: 'end',
      cell: (key: KeyResponse) =>
        key.isActive &&
        html`<${Button} size="small" kind="danger" onClick=${() => setRevoked(key)}>Revoke<//>`,
    },
  ]
  const empty = html`<${Empty} title="No API keys"><p>A program with a key can do everything that you can do in the dashboard. Each key is shown once.</p><//>`
  const draw = ({ keys }: { keys: readonly KeyResponse[] }) =>
    html`<${Table} caption="API keys" columns=${columns} rows=${keys} keyOf=${({ id }: KeyResponse) => id} empty=${empty} />`
  return html`<${Card} title="API keys" actions=${html`<${Button} size="small" kind="primary" onClick=${() => setMaking(true)}>New key<//>`}>
    <${Load} of=${loaded}>${draw}<//>
    <${Dialog} id="new-key" title="New API key" isOpen=${isMaking} isBusy=${making.isBusy} onClose=${close}>
      <${NewKey} action=${making} onClose=${close} />
    <//>
    <${Dialog} id="revoke" title="Revoke this key?" isOpen=${revoked !== undefined} onClose=${() => setRevoked(undefined)}>
      <p>Programs that use <strong dir="auto">${revoked?.name}</strong> lose access immediately. A revoked key can’t be restored.</p>
      <${Fault} of=${action} />
      <div class="actions"><${Button} onClick=${() => setRevoked(undefined)}>Keep it<//><${Button} kind="danger" isBusy=${action.isBusy} onClick=${revoke}>Revoke<//></div>
    <//>
  <//>`
}

function NewKey({ action, onClose }: { readonly action: Action; readonly onClose: () => void }) {
  const { api } = useSeller()
  const [apiKey, setApiKey] = useState<string>()
  const form = useForm({ name: '' }, action, { name: { expected: 'Enter a name on one line.' } })
  const make = form.submit(async ({ name }) => {
    const made = await api<{ apiKey: string }>('POST', '/api/agent/keys', { name: name.trim() || null })
    setApiKey(made.apiKey)
  })
  if (apiKey !== undefined) {
    return html`<div class="stack">
      <p>This page shows your key only once. Store the key where only your program can read it.</p>
      <${Code} title="API key" code=${apiKey} />
      <div class="actions"><${Button} kind="primary" onClick=${onClose}>I have stored it<//></div>
    </div>`
  }
  return html`<form class="stack" ref=${form.ref} onSubmit=${make} novalidate>
    <${Field} ...${form.at('name')} label="Name" hint="Describe what the key is for." maxlength="64" />
    ${form.line}
    <div class="actions"><${Button} onClick=${onClose} aria-disabled=${action.isBusy ? 'true' : undefined}>Cancel<//><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>Create key<//></div>
  </form>`
}

const samplesFor = (publicUrl: string) => [
  {
    title: 'curl',
    code: `curl ${publicUrl}/api/v1/links \\
  -H "Authorization: Bearer $TOLLGATE_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"url": "https://api.example.com/weather", "title": "Weather", "price": "0.01"}'`,
  },
  {
    title: 'JavaScript',
    code: `const response = await fetch('${publicUrl}/api/v1/links', {
  method: 'POST',
  headers: {
    authorization: \`Bearer \${process.env.TOLLGATE_API_KEY}\`,
    'content-type': 'application/json',
  },
  body: JSON.stringify({ url: 'https://api.example.com/weather', title: 'Weather', price: '0.01' }),
})
console.log(await response.json())`,
  },
  {
    title: 'Python',
    code: `import json, os, urllib.request

request = urllib.request.Request(
    "${publicUrl}/api/v1/links",
    data=json.dumps({"url": "https://api.example.com/weather", "title": "Weather", "price": "0.01"}).encode(),
    headers={
        "Authorization": f"Bearer {os.environ['TOLLGATE_API_KEY']}",
        "Content-Type": "application/json",
    },
)
print(urllib.request.urlopen(request).read().decode())`,
  },
]
