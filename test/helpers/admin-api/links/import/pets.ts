/** A document as generators write it: references, a path's own parameters, examples, an operation that must not be sold. */
export const pets = `
openapi: 3.0.3
info:
  title: Pet store
  description: Sells pets.
  version: 1.0.0
servers:
  - url: SERVER/{stage}
    variables: { stage: { default: v1 } }
paths:
  /pets:
    get:
      operationId: listPets
      summary: List the pets
      description: All of them.
      tags: [Pet Store, animals]
      parameters:
        - $ref: '#/components/parameters/Limit'
      responses:
        '200':
          description: some pets
          content:
            application/json:
              example: [{ id: 1, name: Rex }]
    post:
      operationId: addPet
      summary: Add a pet
      x-price: 0.05
      parameters:
        - { name: dryRun, in: query, schema: { type: boolean } }
      requestBody:
        required: true
        content:
          application/json:
            schema: { $ref: '#/components/schemas/Pet' }
      responses:
        '201':
          description: made
          content:
            application/json:
              schema: { $ref: '#/components/schemas/Pet' }
  /pets/{petId}:
    parameters:
      - { name: petId, in: path, required: true, description: Which one., schema: { type: integer } }
    get:
      operationId: getPet
      summary: One pet
      responses: { '200': { description: the pet } }
    delete:
      operationId: removePet
      deprecated: true
      responses: { '204': { description: gone } }
  /admin:
    trace:
      responses: { '200': { description: x } }
components:
  parameters:
    Limit: { name: limit, in: query, description: How many., schema: { type: integer, nullable: true, maximum: 100, exclusiveMaximum: true } }
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        name: { type: string, example: Rex }
        parent: { $ref: '#/components/schemas/Pet' }
        owner: { $ref: '#/components/schemas/Owner' }
    Owner: { type: object, properties: { $ref: { type: string }, example: { type: string } } }
`

/** The document of an API at this base address. */
export const petsAt = (base: string): string => pets.replace('SERVER', base)
