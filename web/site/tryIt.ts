import { useEffect, useRef, useState } from 'preact/hooks'
import type { Asset } from '../../core/domain/asset.ts'
import { Amount } from '../components/amount.ts'
import { Button } from '../components/button.ts'
import { Field } from '../components/field.ts'
import { Notice } from '../components/notice.ts'
import { Select } from '../components/select.ts'
import { useUnsaved } from '../desk/unsaved.ts'
import { html } from '../html.ts'
import { island } from '../island/island.ts'
import { forgetInTab, keepInTab, keptInTab } from '../tabStorage.ts'
import { type Answer, callLink, type Refusal, type Request } from './callLink.ts'
import { hasBody, queryOf } from './callSamples.ts'
import { type InputField, inputErrors, isJson, valuesOf } from './inputFields.ts'
import { PayOffer } from './payOffer.ts'
import { ReviewForm } from './reviewForm.ts'

export interface TryItProps {
  /** Path of the link on this service. */
  readonly path: string
  readonly method: string
  readonly fields: readonly InputField[]
  /** Decimal string; null for a free one. */
  readonly price: string | null
  /** What the service takes. */
  readonly assets: readonly Asset[]
}

type Filled = Readonly<Record<string, string>>

/** What is filled in where the seller names no fields. */
const FREE = ''

/** A link's input as a form, its call, its price, and the answer. */
function TryItView({ path, method, fields, price, assets }: TryItProps) {
  const [filled, setFilled] = useState<Filled>(() => firstOf(fields))
  const [refused, setRefused] = useState<Refused>()
  const form = useRef<{ querySelector(selector: string): { focus(): void } | null }>(null)
  const [answer, setAnswer] = useState<Answer>()
  const [fault, setFault] = useState<string>()
  const [asked, setAsked] = useState<Request>()
  const [sent, setSent] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  /** Of answers, so that each offer begins anew. */
  const [round, setRound] = useState(0)

  const call = async (request: Request, payment?: string) => {
    setBusy(true)
    setFault(undefined)
    setAsked(request)
    setSent(payment)
    // A page that is loaded again meanwhile still has what the answer can be asked for with.
    if (payment !== undefined) keepInTab(keptKey(path), JSON.stringify([request, payment]))
    try {
      const came = await callLink(request, payment)
      if (payment !== undefined && !isUnsure(came)) forgetInTab(keptKey(path))
      setAnswer(came)
      setRound((before) => before + 1)
    } catch {
      setFault(payment === undefined ? 'The service did not answer. Try again.' : lostWhilePaying)
    } finally {
      setBusy(false)
    }
  }
  const submit = (event: { preventDefault(): void }) => {
    event.preventDefault()
    if (isOpen || isBusy) return
    const errors = errorsOf(method, fields, filled)
    setRefused({ filled, errors })
    if (errors.size === 0) void call({ ...requestOf(path, method, fields, filled), key: newKey() })
  }
  useEffect(() => form.current?.querySelector('[aria-invalid="true"]')?.focus(), [refused])
  const at = (name: string) => ({
    value: filled[name] ?? '',
    // What was changed since is not wrong any more.
    error: filled[name] === refused?.filled[name] ? refused?.errors.get(name) : undefined,
    onInput: (value: string) => setFilled((before) => ({ ...before, [name]: value })),
  })
  useEffect(() => {
    const kept = keptCall(path)
    if (kept === undefined) return
    const [request, payment] = kept
    setAsked(request)
    setSent(payment)
    setFault(lostWhilePaying)
  }, [path])
  const giveUp = () => {
    forgetInTab(keptKey(path))
    setSent(undefined)
    setFault(undefined)
    setAnswer(undefined)
  }
  const { offer, refusal } = answer ?? {}
  // A payment buys one call; with the same one, the same call is answered and costs nothing more.
  const isOpen = sent !== undefined && (fault !== undefined || (answer !== undefined && isUnsure(answer)))
  // A buyer who leaves now loses the payment that the answer can still be requested with.
  useUnsaved(isOpen || (sent !== undefined && isBusy))
  return html`<div class="stack try">
    <form class="stack" ref=${form} onSubmit=${submit} novalidate>
      ${fields.length > 0 && html`<div class="fields">${fields.map((field) => html`<${InputControl} field=${field} ...${at(field.name)} />`)}</div>`}
      ${
        fields.length === 0 &&
        html`<${Field}
          id="free-input"
          label=${hasBody(method) ? 'Body (JSON)' : 'Query'}
          hint=${hasBody(method) ? undefined : 'Such as city=Lisbon; empty is fine.'}
          ...${at(FREE)}
          ...${hasBody(method) ? { rows: 4 } : {}}
        />`
      }
      <div class="row">
        <${Button} kind="primary" type="submit" isBusy=${isBusy} disabled=${isOpen}>${price === null ? 'Call it' : html`<span>Call it for <${Amount} value=${price} /></span>`}<//>
        <span class="small soft">${price === null ? 'It is free.' : 'Nothing is paid before you confirm it in your wallet.'}</span>
      </div>
    </form>
    <noscript><p class="soft">Calling it from here needs JavaScript; the lines below work everywhere.</p></noscript>
    <div class="stack said" aria-live="polite">
      ${fault && html`<${Notice} tone="bad" title=${fault} />`}
      ${
        isOpen &&
        asked &&
        html`<div class="row">
          <${Button} isBusy=${isBusy} onClick=${() => call(asked, sent)}>Ask again with the same payment<//>
          <${Button} kind="quiet" disabled=${isBusy} onClick=${giveUp}>Give it up, and pay anew<//>
        </div>`
      }
      ${refusal && fault === undefined && !isBusy && html`<${Notice} tone="bad" title="The payment was refused">${wordsOf(refusal)} Nothing was paid; you can try again.<//>`}
      ${
        offer &&
        asked &&
        !isOpen &&
        html`<${PayOffer} key=${round} offer=${offer} assets=${assets} isBusy=${isBusy} onSigned=${(payment: string) => call(asked, payment)} />`
      }
      ${answer && !offer && html`<${AnswerView} answer=${answer} />`}
    </div>
    ${answer && !offer && html`<${Review} key=${round} answer=${answer} />`}
  </div>`
}

const lostWhilePaying =
  'The answer to the paid call did not arrive. The payment may have been taken: ask again with the same one, which costs nothing more.'

const keptKey = (path: string): string => `tollgate-call:${path}`

/** The paid call whose answer this tab never saw. */
function keptCall(path: string): readonly [Request, string] | undefined {
  const kept = keptInTab(keptKey(path))
  return kept === null ? undefined : JSON.parse(kept)
}

/** The same payment may still be answered: it is at work, or nobody has looked at it yet. */
const isUnsure = ({ status, purchaseId }: Answer): boolean =>
  status >= 500 || ([408, 425, 429].includes(status) && purchaseId === undefined)

/** For a buyer with a wallet: the gateway counts in the smallest units of a token. */
const wordsOf = ({ reason, message }: Refusal): string =>
  /insufficient|balance/i.test(reason)
    ? 'This wallet has less than the price.'
    : `The gateway says: ${message}`

const firstOf = (fields: readonly InputField[]): Filled =>
  Object.fromEntries(
    fields.map(({ name, example, kind, options }) => [
      name,
      kind === 'choice' && !options.includes(example) ? '' : example,
    ]),
  )

/** A form that was not sent, and why. */
interface Refused {
  readonly filled: Filled
  readonly errors: ReadonlyMap<string, string>
}

function errorsOf(method: string, fields: readonly InputField[], filled: Filled): Refused['errors'] {
  if (fields.length > 0 || !hasBody(method) || isJson(filled[FREE] || '{}'))
    return inputErrors(fields, filled)
  return new Map([[FREE, 'Enter JSON, such as {"city": "Lisbon"}; empty is fine.']])
}

/** @param filled without {@link errorsOf} */
function requestOf(path: string, method: string, fields: readonly InputField[], filled: Filled): Request {
  const free = filled[FREE] ?? ''
  if (!hasBody(method)) {
    const query =
      fields.length === 0 ? free.trim().replace(/^\??(?=.)/, '?') : queryOf(valuesOf(fields, filled))
    return { url: path + query, method }
  }
  const body = fields.length > 0 ? valuesOf(fields, filled) : JSON.parse(free || '{}')
  return { url: path, method, body: JSON.stringify(body) }
}

const InputControl = ({
  field: { name, kind, isRequired, description, options },
  value,
  error,
  onInput,
}: {
  readonly field: InputField
  readonly value: string
  readonly error: string | undefined
  readonly onInput: (value: string) => void
}) => {
  const id = `input-${name}`
  const label = isRequired ? `${name} (needed)` : name
  if (kind === 'choice' || kind === 'flag') {
    const values = kind === 'flag' ? ['true', 'false'] : options
    const choices = [{ value: '', label: '–' }, ...values.map((one) => ({ value: one, label: one }))]
    return html`<${Select} id=${id} label=${label} value=${value} hint=${description || undefined} error=${error} options=${choices} onChange=${onInput} />`
  }
  return html`<${Field}
    id=${id}
    label=${label}
    value=${value}
    hint=${description || undefined}
    error=${error}
    onInput=${onInput}
    ...${kind === 'json' ? { rows: 3 } : {}}
    ...${kind === 'number' ? { inputmode: 'decimal' } : {}}
  />`
}

const AnswerView = ({ answer: { status, ms, text, purchaseId } }: { readonly answer: Answer }) => {
  const isGood = status < 400
  return html`<section class="stack tight">
    <h3>${isGood ? 'Answer' : 'It did not work'} <span class="soft small number">${status} · ${ms} ms</span></h3>
    <pre class="answer" tabindex="0"><code dir="auto">${text}</code></pre>
    ${purchaseId && html`<p class="small soft">${isGood ? 'Paid. ' : ''}Purchase <code>${purchaseId}</code></p>`}
  </section>`
}

/** Of a paid answer whose gateway said with what it is reviewed. */
const Review = ({ answer: { status, purchaseId, reviewToken, payer } }: { readonly answer: Answer }) =>
  status < 400 && purchaseId !== undefined && reviewToken !== undefined && payer !== undefined
    ? html`<${ReviewForm} of=${{ purchaseId, token: reviewToken, wallet: payer }} />`
    : null

/** The form of a link's page that calls it. */
export const TryIt = island('try-it', TryItView)

/** 128 random bits; `randomUUID` is not there on a page without TLS. */
const newKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
