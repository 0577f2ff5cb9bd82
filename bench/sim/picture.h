// The result of the demo as a value: nodes with their cards and the pods on them, and pods with
// their placement or the reason why they are pending. read_picture reads it from Node and Pod
// objects only, and not from the extender's memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/units.h"
#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"

namespace mgpu::sim {

struct Piece {
  std::size_t pod = 0;  // index into Picture::pods
  Share share;
};

struct CardPicture {
  CardIndex index;
  std::string model;
  Share capacity;
  bool healthy = true;
  std::vector<Piece> pieces;
};

struct NodePicture {
  std::string name;
  std::vector<CardPicture> cards;
};

struct PodPicture {
  PodRef ref;
  std::string request;               // "30 % 1024 MiB", "2 cards"; containers joined by " + "
  std::string node;                  // empty if the pod is pending
  std::string finished;              // its phase, if it has finished
  kube::StringMap annotations;       // those of the resource domain
  std::string reason;                // why the pod is pending
  std::vector<std::string> details;  // the reason for each card
};

struct Picture {
  std::vector<NodePicture> nodes;
  std::vector<PodPicture> pods;
};

// The picture shows `pods` in this order. The caller adds reasons and details.
Picture read_picture(const std::vector<kube::Node>& nodes, const std::vector<kube::Pod>& pods,
                     const Contract& contract);

// The letter of a pod in the bars of cards, by its index.
char letter_of(std::size_t pod);

// Lines of text that end with "\n". If `color` is set, they contain ANSI colours.
std::string draw(const Picture& picture, bool color);

}  // namespace mgpu::sim
