import { useState } from 'preact/hooks'
import { Field } from '../../components/field.ts'
import { Tabs } from '../../components/tabs.ts'
import { html } from '../../html.ts'
import { MAX_DOCUMENT_BYTES, megabytes } from './importBody.ts'

export interface DocumentFieldProps {
  readonly onInput: (document: string) => void
  readonly error?: string | undefined
}

/** A document, by a file of this machine or as text. The browser reads it; nothing is sent before somebody says so. */
export function DocumentField({ onInput, error }: DocumentFieldProps) {
  const [place, setPlace] = useState(0)
  const [texts, setTexts] = useState(['', ''])
  /** How large the chosen one is, in words. */
  const [file, setFile] = useState<string>()
  const [fault, setFault] = useState<string>()
  const take = (at: number, text: string) => {
    setTexts((before) => before.with(at, text))
    onInput(text)
  }
  const choose = async (event: Event) => {
    const [given] = (event.target as unknown as { files: readonly File[] }).files
    if (given === undefined) return
    setFault(undefined)
    setFile(undefined)
    if (given.size > MAX_DOCUMENT_BYTES) {
      take(0, '')
      return setFault(
        `${given.name} has ${megabytes(given.size)}, and a document may have ${megabytes(MAX_DOCUMENT_BYTES)}. Import a part of it at a time.`,
      )
    }
    try {
      take(0, await given.text())
      setFile(given.size < 1e5 ? `${Math.ceil(given.size / 1e3)} kB.` : `${megabytes(given.size)}.`)
    } catch {
      setFault(`${given.name} can’t be read. Choose it again.`)
    }
  }
  const wrong = fault ?? error
  const fromFile = html`<div class="field">
    <label for="document-file">OpenAPI document</label>
    <input class="input desk-file" id="document-file" type="file" accept=".yaml,.yml,.json,application/json,application/yaml"
      aria-describedby="document-file-hint" aria-invalid=${wrong && 'true'} onChange=${choose} />
    <p class="hint" id="document-file-hint" aria-live="polite">${file ?? 'Version 3.0 or 3.1, YAML or JSON, at most 16 MB. One that is on the web: save it first.'}</p>
    ${wrong && html`<p class="error" role="alert">${wrong}</p>`}
  </div>`
  const fromText = html`<${Field} id="document-text" label="OpenAPI document" rows=${10} value=${texts[1]} onInput=${(text: string) => take(1, text)}
    class="input mono desk-document" spellcheck=${false} autocapitalize="none" hint="Version 3.0 or 3.1, YAML or JSON." error=${place === 1 ? error : undefined} />`
  const change = (at: number) => {
    setPlace(at)
    onInput(texts[at]!)
  }
  return html`<${Tabs} id="from" label="Where the document is" chosen=${place} onChange=${change}
    tabs=${[
      { title: 'A file', content: place === 0 && fromFile },
      { title: 'Text', content: place === 1 && fromText },
    ]} />`
}
